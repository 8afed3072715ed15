"""The JSON Schemas of the OpenAPI document: one for each type that an operation takes or gives."""

from __future__ import annotations

from collections.abc import Iterable
from types import GenericAlias, UnionType
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from typing_extensions import is_typeddict

from api.openapi_fields import FIELDS
from api.operations import Operation
from api.problems import ProblemOut

_Asked = tuple[Any, JsonSchemaMode, TypeAdapter[Any]]
_DESCRIBED = ConfigDict(use_attribute_docstrings=True)


class _Generator(GenerateJsonSchema):
    """Without titles, which would only say the names again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Schemas:
    """The schema of each type that the operations name; shared parts are referred to."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        _describe(ProblemOut)
        asked: list[_Asked] = [("problem", "serialization", TypeAdapter(ProblemOut))]
        for operation in operations:
            said = operation.handler.contract
            _describe(said.gives)
            for kind, type_ in (("body", said.body), ("query", said.query), ("gives", said.gives)):
                if type_ is not None:
                    mode: JsonSchemaMode = "serialization" if kind == "gives" else "validation"
                    asked.append(((operation.name, kind), mode, TypeAdapter(type_)))
        by_key, shared = TypeAdapter.json_schemas(
            asked, ref_template="#/components/schemas/{model}", schema_generator=_Generator
        )
        self._by_key = {key: schema for (key, _), schema in by_key.items()}
        self.shared: dict[str, Any] = shared["$defs"]
        self.problem = self._by_key["problem"]
        # A query is no schema of the document: its fields stand there as parameters.
        queries = [key for key in self._by_key if key[1] == "query"]
        named = {self._by_key[key].get("$ref", "").rpartition("/")[2] for key in queries}
        self._by_key |= {key: self.resolved(self._by_key[key]) for key in queries}
        self.shared = {name: said for name, said in self.shared.items() if name not in named}
        for schema in (*self.shared.values(), *(self._by_key[key] for key in queries)):
            for name, said in schema.get("properties", {}).items():
                if name in FIELDS:
                    said.setdefault("description", FIELDS[name])

    def of(self, operation: Operation, kind: str) -> dict[str, Any] | None:
        return self._by_key.get((operation.name, kind))

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema itself in place of a reference to it."""
        ref = schema.get("$ref")
        return self.shared[ref.rpartition("/")[2]] if ref else schema

    def patch_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of an RFC 7396 merge patch: any of the fields, and null for the default
        of one that has any. Of a union any member may be meant: the stored value decides."""
        schema = self.resolved(schema)
        if members := schema.get("oneOf") or schema.get("anyOf"):
            return {"anyOf": [self.patch_of(one) for one in members]}
        if "properties" not in schema:
            return schema
        needed = schema.get("required", ())
        fields = {}
        for name, said in schema["properties"].items():
            patch = self.patch_of(said)
            about = {key: said[key] for key in ("description",) if key in said}
            fields[name] = (
                patch if name in needed else {"anyOf": [patch, {"type": "null"}], **about}
            )
        return {"type": "object", "properties": fields, "additionalProperties": False}


def not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as a query has it, where null is not sent but left out."""
    rest = {key: said for key, said in schema.items() if (key, said) != ("default", None)}
    others = [one for one in rest.pop("anyOf", ()) if one != {"type": "null"}]
    if len(others) > 1:
        return {**rest, "anyOf": others}
    rest = {**(others[0] if others else {}), **rest}
    if isinstance(kind := rest.get("type"), list):
        [rest["type"]] = [one for one in kind if one != "null"]
    return rest


def _describe(type_: Any) -> None:
    """Have pydantic read what stands below the fields of a TypedDict, and of all within it, as it
    does for the models that the API takes."""
    if is_typeddict(type_):
        if "__pydantic_config__" not in vars(type_):
            type_.__pydantic_config__ = _DESCRIBED
            for field in get_type_hints(type_).values():
                _describe(field)
    elif get_args(type_) or isinstance(type_, (UnionType, GenericAlias)):
        for part in get_args(type_):
            _describe(part)
