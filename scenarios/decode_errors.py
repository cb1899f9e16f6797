"""What was wrong with data, with the field in front: msgspec says it the other way round."""


def field_of(message: str) -> tuple[str, str]:
    """The field and the fault of a msgspec.ValidationError; the field is empty at the top.

    Example: "Expected `str` - at `$.user.id`" -> ("user.id", "expected `str`")
    """
    fault, _, place = message.partition(" - at `$")
    return place.rstrip("`").lstrip("."), fault[:1].lower() + fault[1:]


def field_sentence(message: str) -> str:
    """The same as one sentence.

    Example: "Expected `str`, got `int` - at `$.user.id`" -> "user.id: expected `str`, got `int`"
    """
    field, fault = field_of(message)
    return f"{field}: {fault}" if field else fault
