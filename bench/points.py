"""Many different points of P-256, quickly: what registered keys are, for devices of which nothing but their number matters.

Nobody draws keys at random here: the points are consecutive multiples of the generator, and fit for measuring alone.
"""

P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
# SP 800-186, 3.2.1.3: the curve is y^2 = x^3 - 3x + B, and the generator has these coordinates.
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)
# One inversion for so many additions.
BLOCK = 1024


def double(point):
    x, y = point
    slope = (3 * x * x - 3) * pow(2 * y, -1, P) % P
    return chord(point, point, slope)


def chord(one, other, slope):
    """The sum of two points on a line of that slope."""
    x = (slope * slope - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


def sums(base, others):
    """`base` added to each of the others, none of which is it or its opposite."""
    # Montgomery's trick: the inverse of a product gives the inverse of each of its factors.
    differences = [(other[0] - base[0]) % P for other in others]
    products, product = [], 1
    for difference in differences:
        products.append(product)
        product = product * difference % P
    inverse, found = pow(product, -1, P), []
    for other, difference, before in zip(reversed(others), reversed(differences), reversed(products)):
        found.append(chord(base, other, (other[1] - base[1]) * inverse * before % P))
        inverse = inverse * difference % P
    return found[::-1]


def multiples(count):
    """The generator's multiples from 1 to `count`."""
    table = [GENERATOR, double(GENERATOR)]
    while len(table) < min(count, BLOCK):
        table += sums(table[-1], table[:-1]) + [double(table[-1])]
    yield from table[:min(count, BLOCK)]
    table = table[:BLOCK]
    base, left = table[-1], count - BLOCK
    while left > 0:
        # The first addition would be of a point to itself, where only one block has been before.
        following = (
            [*sums(base, table[:-1]), double(base)] if base == table[-1] else sums(base, table))
        yield from following[:left]
        base, left = following[-1], left - BLOCK


def encoded(point):
    """The uncompressed point in 65 bytes (SEC 1, 2.3.3)."""
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")
