/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/configuration.md: what the table cannot know as prose here, the rest from the table.
 */
#include "config/keys/format.h"
#include "config/load/config_load.h"

static const char introduction[] =
    "<!-- Generated from config/keys/keys.c and config/load/reference.c: spanprof print-reference "
    "-->\n"
    "# Configuration\n"
    "\n"
    "spanprof reads YAML in the form of the OpenTelemetry Collector: components (receivers,\n"
    "processors, exporters, extensions), and a service that says which of them are used and how "
    "data\n"
    "flows between them. `config/spanprof.yaml` is a complete example with comments.\n"
    "\n"
    "    spanprof --config FILE [--config FILE]... [--set KEY.KEY=VALUE]...\n"
    "    spanprof validate --config FILE         # checks, starts nothing\n"
    "    spanprof print-config --config FILE     # the effective configuration, with defaults\n"
    "\n"
    "- Several sources are merged from left to right: maps merge, lists and single values are\n"
    "  replaced, and a null (a key without a value) empties a map.\n"
    "- `--set receivers.sampler.frequency=49` is a source too; the value is YAML, so lists are "
    "`[a, b]`.\n"
    "- Unknown keys, wrong types and values out of range are refused. All errors are reported "
    "together,\n"
    "  as `file:line:column: path::to::key: what is wrong; what would be right`.\n"
    "- A file has at most 1 MiB, one document, 32 levels and no anchors, aliases or tags; all "
    "sources\n"
    "  together have at most 10,000 values.\n"
    "\n"
    "## Values\n"
    "\n"
    "A **duration** is written `500ms`, `5s`, `1h30m` (units ns, us, ms, s, m, h); a bare number "
    "means\n"
    "nanoseconds. A **boolean** is `true` or `false`, a **number** stands without quotes. A list "
    "of texts\n"
    "may also be one text with commas: `a, b`.\n"
    "\n"
    "| Written in a value | Means |\n"
    "|---|---|\n"
    "| `${env:NAME}`, `${NAME}` | the environment variable; if it is not set: empty, with a "
    "warning |\n"
    "| `${env:NAME:-text}` | the variable, or `text` if it is not set (set but empty counts as "
    "set) |\n"
    "| `${file:/path}` | the content of a file, without a trailing newline |\n"
    "| `${yaml:text}` | the text |\n"
    "| `$$` | a plain `$` |\n"
    "\n"
    "If the whole value is one reference, it is read as YAML: a number, a list, a map. Keys that "
    "want a\n"
    "text take it as it stands. Within a text the reference is replaced by text. References may "
    "be\n"
    "nested (`${env:${WHICH}}`), and values may hold references in turn, so a `$` in them is "
    "written\n"
    "`$$`. Keys are not expanded.\n"
    "\n"
    "A component's id is `type` or `type/name`, so that one type can be used several times:\n"
    "`otlp_grpc/archive`. A component without settings has its defaults.\n";

static const char pipelines[] =
    "\n"
    "A pipeline names what it consists of; there is one each of `traces`, `profiles`, `metrics` "
    "and\n"
    "`logs`. A component must be configured, may stand once in a list, and must know the "
    "signal.\n"
    "There is one sampler, one `join` and one store on a node. Components that no pipeline names "
    "are\n"
    "checked, but not started.\n"
    "\n"
    "    service:\n"
    "      extensions: [sqlite_storage]\n"
    "      pipelines:\n"
    "        traces:   {receivers: [otlp],    processors: [join], exporters: [otlp_grpc]}\n"
    "        profiles: {receivers: [sampler], processors: [join], exporters: [otlp_grpc]}\n"
    "        metrics:  {receivers: [otlp], exporters: [otlp_grpc]}\n"
    "        logs:     {receivers: [otlp], exporters: [otlp_grpc]}\n"
    "\n"
    "Metrics and logs go on byte for byte. An otlp receiver serves the signals whose pipeline "
    "names "
    "it;\n"
    "the others are answered UNIMPLEMENTED (404 on HTTP).\n";

static int write_default(const struct config_key *key, struct buf *out)
{
    if (key->flags & KEY_REQUIRED)
        return buf_printf(out, "required");
    if (!key->initial)
        return 0;
    if (key->kind == KEY_TEXTS)
        return buf_printf(out, "`[%s]`", key->initial);
    return *key->initial ? buf_printf(out, "`%s`", key->initial) : buf_printf(out, "`\"\"`");
}

static int write_key(const struct config_key *key, struct buf *out)
{
    char range[FORMAT_MAX];
    format_range(key, range);
    int error = buf_printf(out, "| `%s` | %s | ", key->path, format_type(key));
    if (!error)
        error = write_default(key, out);
    return error ? error : buf_printf(out, " | %s | %s |\n", range, key->help);
}

static int write_keys(int owner, struct buf *out)
{
    bool first = true;
    int error = 0;
    for (size_t i = 0; i < config_keys_count && !error; i++) {
        if (config_keys[i].owner != owner)
            continue;
        if (first)
            error = buf_printf(
                out, "\n| Key | Type | Default | Range | Meaning |\n|---|---|---|---|---|\n");
        if (!error)
            error = write_key(&config_keys[i], out);
        first = false;
    }
    return error;
}

static int write_component(const struct config_component *component, struct buf *out)
{
    int error = buf_printf(out, "\n### %s\n\n%s\n\n", component->name, component->help);
    bool first = true;
    for (unsigned signal = 0; signal < CONFIG_SIGNALS && !error; signal++) {
        if (!(component->signals & 1U << signal))
            continue;
        error = buf_printf(out, "%s%s", first ? "Signals: " : ", ", config_signal_names[signal]);
        first = false;
    }
    if (!error)
        error = buf_printf(out, "%sStability: %s.%s%s%s\n", first ? "" : ". ", component->stability,
                           component->alias ? " Old name: `" : "",
                           component->alias ? component->alias : "", component->alias ? "`." : "");
    return error ? error : write_keys((int)component->type, out);
}

static int write_class(enum config_class class, struct buf *out)
{
    static const char *const titles[CLASSES] = {"Receivers", "Processors", "Exporters",
                                                "Extensions"};
    int error = buf_printf(out, "\n## %s\n", titles[class]);
    for (size_t i = 0; i < config_components_count && !error; i++)
        if (config_components[i].class == class)
            error = write_component(&config_components[i], out);
    return error;
}

int config_print_reference(struct buf *out)
{
    int error = buf_printf(out, "%s\n## Top level\n", introduction);
    if (!error)
        error = write_keys(OWNER_ROOT, out);
    for (enum config_class class = CLASS_RECEIVER; class < CLASSES && !error; class ++)
        error = write_class(class, out);
    if (!error)
        error = buf_printf(out, "\n## Service\n");
    if (!error)
        error = write_keys(OWNER_SERVICE, out);
    if (!error)
        error = buf_printf(out, "\n## Pipelines\n%s", pipelines);
    return error ? error : write_keys(OWNER_PIPELINE, out);
}
