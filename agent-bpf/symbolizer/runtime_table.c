/* SPDX-License-Identifier: Apache-2.0 */
/* The rooms of runtimes stand on agent-bpf/runtimes, so the table of them is here. */
#include "agent-bpf/runtimes/hotspot/hotspot_reader.h"
#include "agent-bpf/runtimes/php/php_reader.h"
#include "agent-bpf/runtimes/python/python_reader.h"
#include "agent-bpf/runtimes/ruby/ruby_reader.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include "agent-bpf/runtimes/v8/v8_reader.h"

const struct runtime_reader runtime_readers[] = {
    {RUNTIME_PYTHON, RUNTIME_SECTION_PYTHON, 1u << FRAME_PYTHON, python_reader_open,
     python_reader_close, python_reader_attach, python_reader_names, python_reader_version},
    {RUNTIME_PYTHON, RUNTIME_SECTION_PYTHON_TASKS, 0, python_reader_open_tasks, python_reader_close,
     python_reader_attach_tasks, python_reader_names, python_reader_version},
    {RUNTIME_PHP, RUNTIME_SECTION_PHP, 1u << FRAME_PHP, php_reader_open, php_reader_close,
     php_reader_attach, php_reader_names, php_reader_version},
    {RUNTIME_NODE, RUNTIME_SECTION_V8, 1u << FRAME_V8, v8_reader_open, v8_reader_close,
     v8_reader_attach, v8_reader_names, v8_reader_version},
    {RUNTIME_JAVA, RUNTIME_SECTION_HOTSPOT, HOTSPOT_FRAME_KINDS, hotspot_reader_open,
     hotspot_reader_close, hotspot_reader_attach, hotspot_reader_names, hotspot_reader_version},
    {RUNTIME_RUBY, RUNTIME_SECTION_RUBY, 1u << FRAME_RUBY, ruby_reader_open, ruby_reader_close,
     ruby_reader_attach, ruby_reader_names, ruby_reader_version},
    {0},
};
