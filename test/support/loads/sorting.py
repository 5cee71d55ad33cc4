# SPDX-License-Identifier: Apache-2.0
"""Load without end: sorting with a callback, JSON, regular expressions, hashes."""
import hashlib
import json
import re

while True:
    texts = json.loads(json.dumps([str(i) for i in range(999)]))
    texts.sort(key=lambda text: text[::-1])
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()
    re.sub("(a|b)+c", digest, "xabac" * 99)
