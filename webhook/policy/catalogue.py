"""The built-in GPUs and models: data files beside this module, read by the same strict tables as a policy.

`catalogue/gpus.yaml` is a mapping with the one key `gpus`, `catalogue/models.yaml` one with the one key `models`, each
a list in exactly the form of the policy's section of that name (`tollgate config explain gpus` and `models` list the
fields). Every card must give products and memoryMiB. A figure carries its source in `source`; a MIG profile whose size
no source gives is written `3g.40gb: null`. Profiles become built-in ones: the figures of one engine, to be multiplied
by the factor of the pod's. Names and aliases lead to one model each, whatever their case.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from webhook.domain.rules import Gpu, Model
from webhook.policy.checks import report_names
from webhook.policy.kinds import Kind
from webhook.policy.report import At, PolicyError, PolicyErrors, Rejected, Report, path_text
from webhook.policy.schema import gpus, models
from webhook.policy.yaml12 import read


class Catalogue(Struct, frozen=True, gc=False):
    """GPUs by name; models by lower-case name and alias."""

    gpus: Mapping[str, Gpu]
    models: Mapping[str, Model]


@lru_cache(maxsize=1)
def built_in() -> Catalogue:
    """The catalogue that comes with this version. Read once."""
    folder = files("webhook.policy") / "catalogue"
    return parse((folder / "gpus.yaml").read_bytes(), (folder / "models.yaml").read_bytes())


def parse(gpus_yaml: bytes, models_yaml: bytes) -> Catalogue:
    """A catalogue from its two files. Raises PolicyErrors."""
    report = Report()
    cards = gpus.lay_over({}, _section(gpus_yaml, "gpus", gpus.GPUS, report))
    entries = _section(models_yaml, "models", models.MODELS, report)
    report_names(report, frozenset(cards))
    if report.errors:
        raise PolicyErrors(PolicyError(path_text(path), message) for path, message in report.errors)
    return Catalogue(MappingProxyType(cards), MappingProxyType(models.by_name(_built_in(model) for model in entries)))


def _built_in(model: Model) -> Model:
    profiles = tuple(msgspec.structs.replace(profile, built_in=True) for profile in model.profiles)
    return msgspec.structs.replace(model, profiles=profiles)


def _section(data: bytes, key: str, kind: Kind[tuple[Any, ...]], report: Report) -> tuple[Any, ...]:
    reading = read(data)
    if reading.problems:
        raise PolicyErrors(PolicyError(key, problem.message, problem.line) for problem in reading.problems)
    root = At(report)
    match [document.value for document in reading.documents]:
        case [{**sections}] if list(sections) == [key]:
            try:
                return kind.parse(sections[key], root.down(key))
            except Rejected:
                return ()
        case _:
            root.down(key).error(f"the file must be one document with the one key {key}")
            return ()
