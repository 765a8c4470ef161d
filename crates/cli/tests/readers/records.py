"""Validates records against docs/records.schema.json.

usage: records.py SCHEMA TYPES JSONL...   TYPES are all types of the records: run,page
"""

import json
import sys

from jsonschema import Draft202012Validator

with open(sys.argv[1]) as file:
    schema = json.load(file)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
kinds = set()
for path in sys.argv[3:]:
    with open(path) as file:
        for line in file:
            record = json.loads(line)
            error = next(validator.iter_errors(record), None)
            if error:
                details = [(list(cause.path), cause.message[:200]) for cause in error.context] or error.message
                sys.exit(f"{line}\n{details}")
            kinds.add(record["type"])
assert kinds == set(sys.argv[2].split(",")), kinds
