#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs libspanprof-context from a build folder and links programs with what is installed, as its
# users do: context_install.sh BUILD_DIR CC
set -eu
build=$1 cc=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

DESTDIR=$root cmake --install "$build" --component context >/dev/null
pc=$(find "$root" -name spanprof-context.pc)
export PKG_CONFIG_PATH="${pc%/*}"
libdir=${PKG_CONFIG_PATH%/pkgconfig}
includedir=$(dirname "$(find "$root" -name spanprof_context.h)")

flags() {
    pkg-config --define-variable=libdir="$libdir" --define-variable=includedir="$includedir" \
        --cflags --libs "$1"
}

cat >"$root/user.c" <<'END'
#include <spanprof_context.h>
int main(void)
{
    static const unsigned char trace_id[16] = {1}, span_id[8] = {2};
    struct spanprof_context now;
    struct spanprof_attribute name = {"service.name", "installed"};
    if (spanprof_context_publish(&name, 1) || spanprof_context_set(trace_id, span_id, 1))
        return 1;
    spanprof_context_get(&now);
    return now.span_id[0] == 2 && !spanprof_context_withdraw() ? 0 : 1;
}
END
user=$root/user.c
strict="-std=c99 -pedantic -Wall -Wextra -Werror"
# shellcheck disable=SC2046,SC2086
"$cc" $strict "$user" -o "$root/user_shared" $(flags spanprof-context)
# shellcheck disable=SC2046,SC2086
"$cc" $strict "$user" -o "$root/user_static" $(flags spanprof-context-static)
if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046
    c++ -Wall -Wextra -Werror -x c++ "$user" -x none -o "$root/user_cxx" $(flags spanprof-context)
    LD_LIBRARY_PATH=$libdir "$root/user_cxx"
fi

LD_LIBRARY_PATH=$libdir "$root/user_shared"
readelf -dW "$root/user_shared" | grep -q 'NEEDED.*libspanprof-context\.so\.0'
"$root/user_static"
for symbol in otel_thread_ctx_v1 spanprof_context_records_v1 spanprof_context_process_v1; do
    readelf --dyn-syms -W "$root/user_static" | grep -q " $symbol\$"
done
if readelf --dyn-syms -W "$root/user_static" | grep -q spanprof_context_set; then
    echo "the static library's functions are exported" >&2
    exit 1
fi
echo "linked and run: shared, static"
