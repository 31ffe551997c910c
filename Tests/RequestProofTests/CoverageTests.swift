import RequestProof
import Testing

@Suite("Required coverage of a proof")
struct CoverageTests {
    private static let always = ["@method", "@authority", "@path", "@query"]

    /// Returns the name of the first missing component, or nil.
    private func missing(
        _ covered: [String], _ traits: RequestTraits = [], demanding demanded: [String] = []
    ) throws -> String? {
        let fields = try demanded.map { try #require(FieldComponent($0)) }
        let input = try Parsing.input(Sample.input(covered.map { "\"\($0)\"" }.joined(separator: " ")))
        do throws(ProofFault) {
            try Coverage(demanding: fields).check(input, for: traits)
            return nil
        } catch {
            guard case .incomplete(let component) = error else { throw error }
            return component.description
        }
    }

    @Test("the four parts of the target are always required", arguments: always)
    func target(_ name: String) throws {
        #expect(try missing(Self.always) == nil)
        #expect(try missing(Self.always.reversed()) == nil)
        #expect(try missing(Self.always.filter { $0 != name } + ["content-digest", "x"]) == name)
    }

    @Test("the first missing component is named")
    func order() throws {
        #expect(try missing([]) == "@method")
        #expect(try missing(["@method", "@query"], .content) == "@authority")
        #expect(try missing(Self.always, [.content, .authorization, .contentType]) == "content-digest")
        #expect(try missing(Self.always, [.content, .proofCounter]) == "content-digest")
    }

    @Test(
        "components that the request has are required",
        arguments: [
            (RequestTraits.content, "content-digest"), (.authorization, "authorization"),
            (.contentType, "content-type"),
            (.contentEncoding, "content-encoding"), (.proofCounter, "attest-proof-counter"),
        ])
    func traits(_ trait: RequestTraits, _ name: String) throws {
        #expect(try missing(Self.always, trait) == name)
        #expect(try missing(Self.always + [name], trait) == nil)
        #expect(try missing([name] + Self.always + ["x"], trait) == nil)
    }

    @Test("components that the route demands are required, whatever the request has")
    func demanded() throws {
        #expect(try missing(Self.always, demanding: ["X-Location", "x-other"]) == "x-location")
        #expect(try missing(Self.always + ["x-location"], demanding: ["x-location", "x-other"]) == "x-other")
        #expect(try missing(Self.always + ["x-other", "x-location"], demanding: ["x-location", "x-other"]) == nil)
        #expect(try missing(Self.always, demanding: ["content-digest"]) == "content-digest")
    }

    @Test("covering more is accepted")
    func more() throws {
        #expect(try missing(["date", "authorization"] + Self.always + ["content-digest"]) == nil)
    }

    @Test("the components requested from a client are those that are checked")
    func components() throws {
        let location = try #require(FieldComponent("X-Location"))
        let digest = try #require(FieldComponent("content-digest"))
        let coverage = Coverage(demanding: [location, digest])
        let components = coverage.components(for: [.content, .contentType])
        #expect(
            components.map(\.description)
                == Self.always + ["content-digest", "content-type", "x-location"])
        let builder = try ProofBuilder(components: components, keyID: try Sample.keyID(), nonce: [0x61], created: 1)
        #expect(throws: Never.self) { try coverage.check(builder.input, for: [.content, .contentType]) }
        #expect(throws: ProofFault.incomplete(.field(try #require(FieldComponent("authorization"))))) {
            try coverage.check(builder.input, for: .authorization)
        }
    }

    @Test("a demanded field must have a valid field name", arguments: ["", "a b", "@method", "a:", "é", "a\n"])
    func names(_ name: String) {
        #expect(FieldComponent(name) == nil)
    }
}

@Suite("The counter in a field")
struct ProofCounterTests {
    private func value(_ lines: String...) throws -> UInt32 {
        var field = CombinedField()
        for line in lines {
            let bytes = Array(line.utf8)
            field.add(bytes.span)
        }
        return try ProofCounter.value(of: field.value)
    }

    @Test("every value has one spelling, the one that is written", arguments: [1, 9, 10, 42, 65_536, .max] as [UInt32])
    func accepted(_ counter: UInt32) throws {
        #expect(ProofCounter.fieldValue(counter) == Array("\(counter)".utf8))
        #expect(try value("\(counter)") == counter)
        #expect(try value(" \(counter)\t") == counter)
    }

    @Test(
        "every other text is malformed",
        arguments: [
            "", "0", "00", "01", "042", "+1", "-1", "1 2", "1,2", "1.0", "1e3", "0x1", "4294967296", "9999999999",
            "10000000000", "18446744073709551617", "one", "\u{661}", "1;a", "\"1\"", "?1", ":AQ==:",
        ])
    func refused(_ text: String) {
        #expect(throws: ProofFault.malformed(.proofCounter, .counterValue)) { try value(text) }
    }

    @Test("two lines are malformed, also if they agree")
    func twice() {
        for second in ["1", "2", ""] {
            #expect(throws: ProofFault.malformed(.proofCounter, .counterValue)) { try value("1", second) }
        }
    }
}

@Suite("Proof freshness")
struct FreshnessTests {
    private static let now: Int64 = 1_763_690_000

    private func check(
        created: Int64, expires: Int64? = nil, maxAge: Int64 = 300, issued: Int64 = now - 200
    ) -> Freshness {
        Freshness.check(
            created: Self.now + created, expires: expires.map { Self.now + $0 }, now: Self.now, maxAge: maxAge,
            challengeIssuedAt: issued)
    }

    @Test("a proof is at most 60 seconds ahead")
    func ahead() {
        #expect(check(created: 0) == .fresh)
        #expect(check(created: 60) == .fresh)
        #expect(check(created: 61) == .ahead)
    }

    @Test("a proof is not older than the maximum age")
    func tooOld() {
        #expect(check(created: -300, issued: Self.now - 300) == .fresh)
        #expect(check(created: -301, issued: Self.now - 300) == .tooOld)
        #expect(check(created: -1, maxAge: 0) == .tooOld)
        #expect(check(created: 0, maxAge: 0) == .fresh)
    }

    @Test("a proof is not older than its challenge, with a minute's tolerance")
    func challenge() {
        #expect(check(created: -160, issued: Self.now - 100) == .fresh)
        #expect(check(created: -161, issued: Self.now - 100) == .precedesChallenge)
    }

    @Test("a proof does not expire at or before its creation")
    func expired() {
        #expect(check(created: 0, expires: 1) == .fresh)
        #expect(check(created: 0, expires: 0) == .expired)
        #expect(check(created: 0, expires: -1) == .expired)
        #expect(check(created: 30, expires: 20) == .fresh)
    }

    @Test(
        "times at the ends of the range do not overflow", arguments: [0, 1, 999_999_999_999_999, Int64.max, Int64.min])
    func extremes(_ time: Int64) {
        for other in [0, Int64.max, Int64.min, 999_999_999_999_999] {
            let verdict = Freshness.check(
                created: time, expires: other, now: other, maxAge: .max, challengeIssuedAt: other)
            #expect(verdict != .fresh)
        }
    }
}
