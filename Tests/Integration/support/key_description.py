"""Key descriptions of Android's keystore, as a phone with a locked bootloader states them."""

PACKAGE = "org.example.app"
SIGNER = bytes([0xA5] * 32)
CHALLENGE = bytes([7] * 32)


def item(tag, content):
    size = len(content)
    length = [size] if size < 0x80 else [0x81, size] if size < 0x100 else [0x82, size >> 8, size & 0xFF]
    return bytes([*tag, *length]) + content


def integer(value, tag=2):
    return item([tag], value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(content):
    return item([4], content)


def integers(values):
    return item([0x31], b"".join(map(integer, values)))


def authorizations(values):
    def tag(number):
        return [0xA0 | number] if number < 31 else [0xBF, 0x80 | number >> 7, number & 127]
    return item([0x30], b"".join(item(tag(number), value) for number, value in values.items()))


def root_of_trust(locked=0xFF, state=0):
    return item([0x30], octets(bytes([1] * 32)) + bytes([1, 1, locked, 10, 1, state]) + octets(bytes([2] * 32)))


def application(package=PACKAGE):
    packages = item([0x31], item([0x30], octets(package.encode()) + integer(1042)))
    return octets(item([0x30], packages + item([0x31], octets(SIGNER))))


def key_description(level=1, software=None, hardware=None, challenge=CHALLENGE):
    """The extension's value. `software` and `hardware` are encoded values by tag, which replace others."""
    software = {701: integer(1_790_000_000_000), 709: application(), 724: octets(bytes(32)), **(software or {})}
    hardware = {
        1: integers([2, 3]), 2: integer(3), 3: integer(256), 5: integers([4]), 10: integer(1), 503: b"\x05\x00", 702: integer(0),
        704: root_of_trust(), 705: integer(160_000), 706: integer(202_602), 718: integer(20_260_205), 719: integer(202_602),
        **(hardware or {})}
    return item([0x30], integer(300) + integer(level, 10) + integer(300) + integer(level, 10) + octets(challenge)
                + octets(b"") + authorizations(software) + authorizations(hardware))
