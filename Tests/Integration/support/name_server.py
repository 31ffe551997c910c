"""A nameserver over UDP that answers as a test tells it, well or not."""

import ipaddress
import socket
import struct
import threading

A, CNAME, SOA, AAAA = 1, 5, 6, 28
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


class Question:
    def __init__(self, packet):
        self.packet = packet
        (self.id,) = struct.unpack_from("!H", packet)
        labels, place = [], 12
        while packet[place]:
            labels.append(packet[place + 1:place + 1 + packet[place]].decode("ascii"))
            place += 1 + packet[place]
        # As it was spelt: evdns mixes capital letters in.
        self.spelt = ".".join(labels)
        self.name = self.spelt.lower()
        (self.type,) = struct.unpack_from("!H", packet, place + 1)
        self.section = packet[12:place + 5]

    def answer(self, records=(), code=NOERROR, flags=0, id=None, about=None):
        """`records`: (owner or None for the name asked for, type, TTL, data); `about`: another name than was asked for."""
        head = struct.pack(
            "!HHHHHH", self.id if id is None else id, 0x8180 | flags | code, 1, len(records), 0, 0)
        section = encoded(about) + self.section[-4:] if about else self.section
        return head + section + b"".join(record(*each) for each in records)


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(owner, kind, ttl, data):
    # C0 0C: the name that was asked for.
    name = b"\xc0\x0c" if owner is None else encoded(owner)
    return name + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def packed(address):
    return ipaddress.ip_address(address).packed


class NameServer:
    """`addresses`: name -> list of addresses of both kinds. `behaviour`: what a question is answered instead, in bytes; None
    for nothing at all."""

    def __init__(self, ttl=1, **addresses):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.ttl = ttl
        self.addresses = {name.replace("_", "."): found for name, found in addresses.items()}
        self.behaviour = None
        # Names and types, as they were asked; and the ports that asked.
        self.questions, self.ports = [], []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                packet, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            if not packet:
                return
            question = Question(packet)
            self.questions.append((question.name, question.type))
            self.ports.append(peer[1])
            answer = (self.behaviour or self.truthful)(question)
            if answer is not None:
                self.socket.sendto(answer, peer)

    def truthful(self, question):
        found = self.addresses.get(question.name)
        if found is None:
            return question.answer(code=NXDOMAIN)
        kind = {A: 4, AAAA: 6}.get(question.type)
        some = [each for each in found if ipaddress.ip_address(each).version == kind]
        return question.answer([(None, question.type, self.ttl, packed(each)) for each in some])

    def asked(self, name):
        return sum(1 for asked, _ in list(self.questions) if asked == name)

    def close(self):
        # close() alone leaves the thread in recvfrom().
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as farewell:
            farewell.sendto(b"", self.socket.getsockname())
        self.socket.close()
