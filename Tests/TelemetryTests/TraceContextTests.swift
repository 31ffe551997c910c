import Bytes
import Testing

@testable import Telemetry

@Suite("Trace contexts (W3C)")
struct TraceContextTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let parent = "b7ad6b7169203331"
    private static let id = TraceID(high: 0x0af7_6519_16cd_43dd, low: 0x8448_eb21_1c80_319c)

    private func parse(_ text: String) -> TraceParent? {
        let bytes = Array(text.utf8)
        return TraceParent(bytes.span)
    }

    @Test("a valid traceparent is read", arguments: [("00", 0), ("01", 1), ("02", 2), ("ff", 3)] as [(String, UInt8)])
    func valid(flags: String, known: UInt8) {
        let read = parse("00-\(Self.trace)-\(Self.parent)-\(flags)")
        #expect(read?.id == Self.id)
        #expect(read?.flags == known)
    }

    @Test("only the known members of a later version are read", arguments: ["", "-", "-and so on"])
    func later(rest: String) {
        let read = parse("01-\(Self.trace)-\(Self.parent)-03\(rest)")
        #expect(read?.id == Self.id)
        #expect(read?.flags == 1)
    }

    @Test("a traceparent with any invalid byte is refused")
    func octets() {
        let valid = Array("00-\(Self.trace)-\(Self.parent)-01".utf8)
        let hyphens = [2, 35, 52]
        for place in valid.indices {
            for octet in UInt8.min...UInt8.max {
                var bytes = valid
                bytes[place] = octet
                let isDigit =
                    UInt8(ascii: "0")...UInt8(ascii: "9") ~= octet || UInt8(ascii: "a")...UInt8(ascii: "f") ~= octet
                let isValid = hyphens.contains(place) ? octet == UInt8(ascii: "-") : isDigit
                #expect((TraceParent(bytes.span) != nil) == isValid, "octet \(octet) at \(place)")
            }
        }
        for count in valid.indices {
            let short = Array(valid[..<count])
            #expect(TraceParent(short.span) == nil)
        }
    }

    @Test(
        "zero ids, version ff and a longer version 00 are refused",
        arguments: [
            "00-\(String(repeating: "0", count: 32))-\(parent)-01", "00-\(trace)-0000000000000000-01",
            "ff-\(trace)-\(parent)-01", "00-\(trace)-\(parent)-01-", "00-\(trace)-\(parent)-010",
            "01-\(trace)-\(parent)-01.",
        ])
    func invalid(text: String) {
        #expect(parse(text) == nil)
    }

    @Test("half of a trace id may be 0")
    func halves() {
        #expect(parse("00-\(String(repeating: "0", count: 31))1-\(Self.parent)-01")?.id == TraceID(high: 0, low: 1))
        #expect(
            parse("00-1\(String(repeating: "0", count: 31))-\(Self.parent)-01")?.id == TraceID(high: 1 << 60, low: 0))
    }

    @Test("a written traceparent can be read, with our own id as parent")
    func written() throws {
        var generator = TraceGenerator()
        let continued = generator.continue(try #require(parse("00-\(Self.trace)-\(Self.parent)-01")))
        var output = ByteBuffer(pool: BufferPool())
        continued.append(to: &output)
        let request = String(continued.request, radix: 16)
        let padded = String(repeating: "0", count: 16 - request.count) + request
        let line = String(decoding: output.copy(), as: UTF8.self)
        #expect(line == "traceparent: 00-\(Self.trace)-\(padded)-01\r\n")
        #expect(padded != Self.parent && continued.isContinued)
    }

    @Test(
        "where spans are exported, clients decide over their traces, and sampling over ours",
        arguments: [1, 4] as [UInt64])
    func recorded(sample: UInt64) throws {
        var generator = TraceGenerator(sample: sample)
        for (flags, isRecorded) in [("00", false), ("01", true), ("02", false), ("03", true)] {
            let trace = generator.continue(try #require(parse("00-\(Self.trace)-\(Self.parent)-\(flags)")))
            #expect(trace.isRecorded == isRecorded && trace.flags == UInt8(flags))
            #expect(String(trace.parent, radix: 16) == Self.parent)
        }
        let begun = (0..<4_000).map { _ in generator.begin() }
        #expect(begun.allSatisfy { $0.flags == ($0.isRecorded ? 1 : 0) && $0.isRecorded == ($0.request % sample == 0) })
        let count = begun.count(where: \.isRecorded)
        // Seven times the deviation that chance has with 4,000 of which one in four is taken.
        #expect(sample == 1 ? count == 4_000 : abs(count - 1_000) < 200, "\(begun[0].request) was the first")
    }

    @Test("without export nothing is recorded, whatever a client asks")
    func unrecorded() throws {
        var generator = TraceGenerator()
        #expect(!generator.begin().isRecorded)
        #expect(!generator.continue(try #require(parse("00-\(Self.trace)-\(Self.parent)-01"))).isRecorded)
    }

    @Test("ids are unique, and each trace that begins here is sampled")
    func unique() {
        var generator = TraceGenerator()
        var other = TraceGenerator()
        var ids: Set<UInt64> = []
        for _ in 0..<1_000 {
            let begun = generator.begin()
            #expect(begun.request != 0 && begun.id != .none && begun.flags == 1 && !begun.isContinued)
            ids.insert(begun.request)
            ids.insert(other.begin().request)
        }
        #expect(ids.count == 2_000)
    }
}
