/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator is told: rights that are missing, and a program that the verifier refuses, are
 * two things though the kernel has one number for both. */
#include "bpf_test.h"
#include "agent-bpf/sampler/sampler.h"
#include "agent-bpf/sampler/sampler_diagnosis.h"
#include <bpf/libbpf.h>
#include <errno.h>
#include <refused.skel.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void load_refused(char *why, int *error)
{
    struct refused_bpf *skeleton = refused_bpf__open();
    assert_non_null(skeleton);
    sampler_diagnosis_listen();
    *error = refused_bpf__load(skeleton);
    refused_bpf__destroy(skeleton);
    assert_int_equal(sampler_diagnosis_load(*error, why, SAMPLER_DIAGNOSIS_MAX),
                     SAMPLER_UNAVAILABLE);
}

static void the_verifier_is_quoted(void **state)
{
    (void)state;
    char why[SAMPLER_DIAGNOSIS_MAX];
    int error;
    load_refused(why, &error);
    print_message("%s\n", why);
    assert_int_equal(error, -EACCES);
    assert_non_null(strstr(why, "invalid mem access"));
    assert_non_null(strstr(why, "please report"));
    assert_null(strstr(why, "CAP_BPF"));
}

/* Also after the verifier had its say. */
static void missing_rights_are_said(void **state)
{
    (void)state;
    char *why = mmap(NULL, SAMPLER_DIAGNOSIS_MAX, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(why != MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        int error;
        if (setuid(65534) < 0)
            _exit(1);
        load_refused(why, &error);
        _exit(error == -EPERM ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(why, "CAP_BPF"));
    assert_null(strstr(why, "please report"));
    munmap(why, SAMPLER_DIAGNOSIS_MAX);
}

/* A security module has no more to say than the number. */
static void denied_without_a_word(void **state)
{
    (void)state;
    char why[SAMPLER_DIAGNOSIS_MAX];
    sampler_diagnosis_listen();
    assert_int_equal(sampler_diagnosis_load(-EACCES, why, sizeof(why)), SAMPLER_UNAVAILABLE);
    assert_non_null(strstr(why, "CAP_BPF"));
    assert_int_equal(sampler_diagnosis_load(-ENOMEM, why, sizeof(why)), -ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verifier_is_quoted),
        cmocka_unit_test(missing_rights_are_said),
        cmocka_unit_test(denied_without_a_word),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
