"""Messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding)."""


def fields(message):
    """(number, value) of each field: whole numbers as they are, without a sign, all others as their bytes."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        assert at + size <= len(message), "a field ends behind its message"
        yield key >> 3, message[at : at + size]
        at += size
