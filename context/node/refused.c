/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An addon that does nothing and needs no C library. Mapped under the name that says why nothing is
 * published (context/publisher_state.h), it shows that to the node.
 */
void *napi_register_module_v1(void *env, void *exports);

__attribute__((visibility("default"))) void *napi_register_module_v1(void *env, void *exports)
{
    (void)env;
    return exports;
}
