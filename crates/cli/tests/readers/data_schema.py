"""Validates the extracted data of records against the printed schema of the rules.

data_schema.py SCHEMA RECORDS.jsonl
"""
import json
import sys

from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1], encoding="utf-8"))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
records = map(json.loads, open(sys.argv[2], encoding="utf-8"))
found = [record["data"] for record in records if "data" in record]
for data in found:
    validator.validate(data)
assert any(data.get("products") for data in found), found
assert not validator.is_valid({**found[0], "day": "yesterday"}) and not validator.is_valid({"other": 1})
