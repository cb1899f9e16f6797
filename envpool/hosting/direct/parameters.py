"""The values of an endpoint's parameters, by a plan that is made once for each endpoint.

FastAPI finds out for each request again which aliases a parameter has, whether it is a model or a
sequence, and whether a body is embedded: a twentieth of a call. The validators and the texts of
errors are FastAPI's own. A parameter that is not plain leaves its endpoint to FastAPI.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from fastapi import BackgroundTasks, Response
from fastapi._compat import Undefined, field_annotation_is_sequence, get_missing_field_error
from fastapi.dependencies import utils
from fastapi.dependencies.utils import SolvedDependency

_CONSTANTS = (type(None), bool, int, float, str)  # types of defaults that need no copy
_COMPUTED = object()  # instead of a default: FastAPI makes it
_SOURCES = (
    ("path_params", attrgetter("path_params")),
    ("query_params", attrgetter("query_params")),
    ("header_params", attrgetter("headers")),
    ("cookie_params", attrgetter("cookies")),
)


class _Parameter(NamedTuple):
    """A parameter whose value is one text of the request."""

    field: Any
    name: str
    alias: str
    loc: tuple[str, ...]
    is_required: bool
    default: Any  # _COMPUTED: it must be made for each request


class _Plan(NamedTuple):
    """How the values of an endpoint are found."""

    sources: tuple[tuple[Callable[[Any], Any], tuple[_Parameter, ...]], ...]
    body: Any  # the field that the whole body is validated by; None: there is none


def _response() -> Response:
    """The response whose headers and status a parameter of the endpoint may set."""
    response = Response()
    del response.headers["content-length"]
    response.status_code = None  # type: ignore[assignment]
    return response


_UNCHANGED = _response()  # for endpoints that do not get it


class Parameters:
    """The plans of one application's endpoints."""

    def __init__(self) -> None:
        self._plans: dict[int, _Plan | None] = {}  # by the id of the dependant, which stays

    async def solve(
        self, *, request: Any, dependant: Any, body: Any, embed_body_fields: bool, **others: Any
    ) -> SolvedDependency:
        """What `fastapi.dependencies.utils.solve_dependencies` returns."""
        key = id(dependant)
        if key not in self._plans:
            self._plans[key] = _plan_of(dependant, embed_body_fields)
        plan = self._plans[key]
        if plan is None:
            return await utils.solve_dependencies(
                request=request,
                dependant=dependant,
                body=body,
                embed_body_fields=embed_body_fields,
                **others,
            )
        values: dict[str, Any] = {}
        errors: list[Any] = []
        for received_of, parameters in plan.sources:
            received = received_of(request)
            for parameter in parameters:
                _add_value(parameter, received.get(parameter.alias), values, errors)
        if plan.body is not None:
            value, faults = utils._validate_value_with_model_field(
                field=plan.body, value=body, values={}, loc=("body",)
            )
            values[plan.body.name] = value
            errors.extend(faults)
        elif dependant.body_params:
            found, faults = await utils.request_body_to_args(
                body_fields=dependant.body_params,
                received_body=body,
                embed_body_fields=embed_body_fields,
            )
            values.update(found)
            errors.extend(faults)
        response, tasks = _UNCHANGED, None
        if dependant.http_connection_param_name:
            values[dependant.http_connection_param_name] = request
        if dependant.request_param_name:
            values[dependant.request_param_name] = request
        if dependant.background_tasks_param_name:
            values[dependant.background_tasks_param_name] = tasks = BackgroundTasks()
        if dependant.response_param_name:
            values[dependant.response_param_name] = response = _response()
        return SolvedDependency(values, errors, tasks, response, {})


def _add_value(parameter: _Parameter, text: Any, values: dict[str, Any], errors: list[Any]) -> None:
    if text is not None:
        value, faults = parameter.field.validate(text, values, loc=parameter.loc)
    elif parameter.is_required:
        errors.append(get_missing_field_error(loc=parameter.loc))
        return
    elif parameter.default is not _COMPUTED:
        values[parameter.name] = parameter.default
        return
    else:
        value, faults = utils._validate_value_with_model_field(
            field=parameter.field, value=Undefined, values=values, loc=parameter.loc
        )
    if faults:
        errors.extend(faults)
    else:
        values[parameter.name] = value


def _plan_of(dependant: Any, embed_body_fields: bool) -> _Plan | None:
    """The plan of an endpoint; None: FastAPI must find its values."""
    if dependant.dependencies or dependant.security_scopes_param_name:
        return None
    sources = []
    for kind, received_of in _SOURCES:
        fields = getattr(dependant, kind)
        if not all(map(_is_plain, fields)):
            return None
        if fields:
            sources.append((received_of, tuple(map(_parameter, fields))))
    fields, body = dependant.body_params, None
    if fields and not embed_body_fields and not utils._should_embed_body_fields(fields):
        body = None if utils._get_form_models(fields[0]) else fields[0]
    return _Plan(tuple(sources), body)


def _is_plain(field: Any) -> bool:
    """Whether a parameter's value is one text under one name."""
    return (
        utils._get_param_model(field) is None
        and len(utils._get_param_aliases(field)) == 1
        and not utils._is_json_field(field)
        and not field_annotation_is_sequence(field.field_info.annotation)
    )


def _parameter(field: Any) -> _Parameter:
    info = field.field_info
    alias = utils._get_param_aliases(field)[0][1]
    default = info.default
    if info.default_factory or info.validate_default or type(default) not in _CONSTANTS:
        default = _COMPUTED
    return _Parameter(
        field, field.name, alias, (info.in_.value, alias), info.is_required(), default
    )
