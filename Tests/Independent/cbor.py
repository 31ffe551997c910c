"""As much of CBOR (RFC 8949) as an attestation and an assertion need, in its shortest form."""


def encode(value):
    """Encodes whole numbers, bytes, text, lists and dictionaries, these in the order that they have."""
    match value:
        case int() if value >= 0:
            return _head(0, value)
        case int():
            return _head(1, -1 - value)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case list():
            return _head(4, len(value)) + b"".join(encode(item) for item in value)
        case dict():
            return _head(5, len(value)) + b"".join(encode(key) + encode(item) for key, item in value.items())
    raise TypeError(f"{type(value)} is not encoded here")


def _head(kind, number):
    for following, octets in [(24, 1), (25, 2), (26, 4)]:
        if number < 24:
            break
        if number < 256 ** octets:
            return bytes([kind << 5 | following]) + number.to_bytes(octets, "big")
    return bytes([kind << 5 | number])
