# SPDX-License-Identifier: Apache-2.0
"""Is a profiles request what OTLP asks for? Written from the schema and the data model alone.

check(message, metadata, size) gives a list of sentences; empty = conforming.
"""
from collections import Counter

VERSION_KEY = "otlp-profiles-development-version"
MAX_BYTES = 4 << 20
TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")


def check(message, metadata=(), size=0):
    return Check(message).run(metadata, size)


class Check:
    def __init__(self, message):
        self.message = message
        self.dictionary = message.dictionary
        self.tables = {name: getattr(self.dictionary, name + "_table") for name in TABLES}
        self.used = {name: set() for name in TABLES}
        self.errors = []

    def run(self, metadata, size):
        self.check_metadata(metadata)
        if size >= MAX_BYTES:
            self.error("request has %d bytes, limit %d", size, MAX_BYTES)
        self.check_tables()
        self.check_envelope()
        self.check_orphans()
        return self.errors

    def error(self, text, *values):
        if len(self.errors) < 50:
            self.errors.append(text % values if values else text)

    def check_metadata(self, metadata):
        versions = [value for key, value in metadata if key == VERSION_KEY]
        if metadata and versions != ["1"]:
            self.error("%s is %r, not exactly one '1'", VERSION_KEY, versions)

    def refer(self, table, index, where):
        if not 0 <= index < len(self.tables[table]):
            self.error("%s: %s_table[%d] of %d", where, table, index, len(self.tables[table]))
            return None
        if index and index not in self.used[table]:
            self.used[table].add(index)
            getattr(self, "walk_" + table)(index)
        return self.tables[table][index]

    def refer_attributes(self, indices, where):
        keys = Counter()
        for index in indices:
            if index == 0:
                self.error("%s: attribute index 0", where)
            entry = self.refer("attribute", index, where)
            if entry is not None:
                keys[entry.key_strindex] += 1
        for key, count in keys.items():
            if count > 1:
                self.error("%s: key %r %d times", where, self.string(key), count)

    def string(self, index):
        strings = self.tables["string"]
        return strings[index] if 0 <= index < len(strings) else "?%d" % index

    # What an entry that is in use refers to.
    def walk_string(self, index):
        pass

    def walk_link(self, index):
        link = self.tables["link"][index]
        if len(link.trace_id) != 16 or len(link.span_id) != 8:
            self.error("link %d: ids of %d and %d bytes", index, len(link.trace_id),
                       len(link.span_id))
        elif not any(link.trace_id) and not any(link.span_id):
            self.error("link %d: zero ids", index)

    def walk_attribute(self, index):
        entry = self.tables["attribute"][index]
        where = "attribute %d" % index
        if entry.key_strindex == 0:
            self.error("%s: no key", where)
        if not entry.HasField("value") or entry.value.WhichOneof("value") is None:
            self.error("%s: no value", where)
        self.refer("string", entry.key_strindex, where)
        self.refer("string", entry.unit_strindex, where)
        self.walk_value(entry.value, where)

    def walk_value(self, value, where):
        kind = value.WhichOneof("value")
        if kind == "string_value_strindex":
            self.refer("string", value.string_value_strindex, where)
        elif kind == "array_value":
            for element in value.array_value.values:
                self.walk_value(element, where)
        elif kind == "kvlist_value":
            for pair in value.kvlist_value.values:
                self.walk_pair(pair, where)

    def walk_pair(self, pair, where):
        if pair.key and pair.key_strindex:
            self.error("%s: both key and key_strindex", where)
        self.refer("string", pair.key_strindex, where)
        self.walk_value(pair.value, where)

    def walk_stack(self, index):
        for location in self.tables["stack"][index].location_indices:
            if location == 0:
                self.error("stack %d: location 0", index)
            self.refer("location", location, "stack %d" % index)

    def walk_location(self, index):
        location = self.tables["location"][index]
        where = "location %d" % index
        mapping = self.refer("mapping", location.mapping_index, where)
        for line in location.lines:
            if line.line < 0 or line.column < 0:
                self.error("%s: negative line or column", where)
            if line.function_index == 0:
                self.error("%s: a line without function", where)
            self.refer("function", line.function_index, where)
        self.refer_attributes(location.attribute_indices, where)
        if mapping is not None and mapping.memory_limit and not (
                mapping.memory_start <= location.address <= mapping.memory_limit):
            self.error("%s: address %#x outside its mapping %#x-%#x", where, location.address,
                       mapping.memory_start, mapping.memory_limit)

    def walk_function(self, index):
        function = self.tables["function"][index]
        where = "function %d" % index
        names = (function.name_strindex, function.system_name_strindex, function.filename_strindex)
        if not any(names):
            self.error("%s: no name", where)
        if function.start_line < 0:
            self.error("%s: negative start line", where)
        for name in names:
            self.refer("string", name, where)

    def walk_mapping(self, index):
        mapping = self.tables["mapping"][index]
        where = "mapping %d" % index
        empty = mapping.memory_start == 0 and mapping.memory_limit == 0
        if not empty and mapping.memory_start >= mapping.memory_limit:
            self.error("%s: range %#x-%#x", where, mapping.memory_start, mapping.memory_limit)
        self.refer("string", mapping.filename_strindex, where)
        self.refer_attributes(mapping.attribute_indices, where)

    def check_tables(self):
        for name, table in self.tables.items():
            if not table:
                self.error("%s_table is empty", name)
                continue
            zero = table[0] == "" if name == "string" else table[0].ByteSize() == 0
            if not zero:
                self.error("%s_table[0] is not the zero value", name)
            seen = Counter(entry if name == "string" else entry.SerializeToString(deterministic=True)
                           for entry in table)
            for entry, count in seen.items():
                if count > 1:
                    self.error("%s_table: %d times %r", name, count, entry[:80])

    def check_envelope(self):
        if not self.message.resource_profiles:
            self.error("no resource_profiles")
        for i, resource in enumerate(self.message.resource_profiles):
            self.check_attributes(resource.resource.attributes, "resource %d" % i)
            if not resource.scope_profiles:
                self.error("resource %d: no scope_profiles", i)
            for scope in resource.scope_profiles:
                self.check_attributes(scope.scope.attributes, "scope of resource %d" % i)
                if not scope.profiles:
                    self.error("resource %d: a scope without profiles", i)
                for j, profile in enumerate(scope.profiles):
                    self.check_profile(profile, "resource %d profile %d" % (i, j))

    def check_attributes(self, attributes, where):
        keys = Counter()
        for pair in attributes:
            keys[pair.key or self.string(pair.key_strindex)] += 1
            self.walk_pair(pair, where)
        for key, count in keys.items():
            if count > 1 or not key:
                self.error("%s: key %r %d times", where, key, count)

    def check_value_type(self, value_type, where):
        self.refer("string", value_type.type_strindex, where)
        self.refer("string", value_type.unit_strindex, where)

    def check_profile(self, profile, where):
        if profile.sample_type.type_strindex == 0:
            self.error("%s: no sample type", where)
        self.check_value_type(profile.sample_type, where)
        self.check_value_type(profile.period_type, where)
        self.refer_attributes(profile.attribute_indices, where)
        if len(profile.profile_id) not in (0, 16):
            self.error("%s: profile_id of %d bytes", where, len(profile.profile_id))
        if bool(profile.original_payload) != bool(profile.original_payload_format):
            self.error("%s: original payload and format not both", where)
        if not profile.samples:
            self.error("%s: no samples", where)
        identities = Counter()
        shapes = set()
        for sample in profile.samples:
            self.check_sample(sample, profile, where, shapes)
            identities[(sample.stack_index, frozenset(sample.attribute_indices),
                        sample.link_index)] += 1
        if len(shapes) > 1:
            self.error("%s: sample shapes %s", where, sorted(shapes))
        repeated = sum(1 for count in identities.values() if count > 1)
        if repeated:
            self.error("%s: %d samples not merged with their like", where, repeated)

    def check_sample(self, sample, profile, where, shapes):
        values, times = len(sample.values), len(sample.timestamps_unix_nano)
        shape = "values and times" if values and times else "values" if values else "times"
        shapes.add(shape)
        if (values == 0 and times == 0) or (values and times and values != times) or \
                (values > 1 and not times):
            self.error("%s: sample with %d values and %d times", where, values, times)
        self.refer("stack", sample.stack_index, where)
        self.refer("link", sample.link_index, where)
        self.refer_attributes(sample.attribute_indices, where)
        end = profile.time_unix_nano + profile.duration_nano
        for time in sample.timestamps_unix_nano:
            if not profile.time_unix_nano <= time < end:
                self.error("%s: time %d outside [%d, %d)", where, time, profile.time_unix_nano, end)

    def check_orphans(self):
        for name, table in self.tables.items():
            orphans = [i for i in range(1, len(table)) if i not in self.used[name]]
            if orphans:
                self.error("%s_table: %d of %d unreferenced, first %r", name, len(orphans),
                           len(table), str(table[orphans[0]])[:80])
