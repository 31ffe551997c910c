import Encoding
import Testing
import Vocabulary

@testable import Registry

@Suite("Signals")
struct SignalsTests {
    private func signals(_ text: String) throws -> Signals? {
        let object = try JSONReader.object(in: Array(text.utf8), longest: 64 << 10)
        return Signals(object, claimedAt: 5)
    }

    @Test("have names, values and nesting of the reference system, and are stored without spaces")
    func form() throws {
        let text = #"""
            { "systemVersion": "iOS 17.4", "identifierForVendor": "B8C9", "build": {"version": {"sdk": 34}},
              "features": ["a", "b"], "isDeviceSecure": true, "a_B9": "\u00e4" }
            """#
        let signals = try #require(try signals(text))
        let stored =
            #"{"systemVersion":"iOS 17.4","identifierForVendor":"B8C9","build":{"version":{"sdk":34}},"#
            + #""features":["a","b"],"isDeviceSecure":true,"a_B9":"ä"}"#
        #expect(String(decoding: signals.content, as: UTF8.self) == stored)
        #expect(Signals(content: signals.content, claimedAt: 5) == signals)
        #expect(
            signals.values.map(\.name) == [
                "systemVersion", "identifierForVendor", "build.version.sdk", "features", "isDeviceSecure", "a_B9",
            ])
        #expect(
            signals.values.map(\.value) == [
                .text("iOS 17.4"), .text("B8C9"), .number(34), .texts(["a", "b"]), .flag(true), .text("ä"),
            ])
    }

    static let refused = [
        #"{"a":null}"#, #"{"a":1.5}"#, #"{"a":[1]}"#, #"{"a":[["b"]]}"#, #"{"a":[{}]}"#, #"{"a":{"b":{"c":{}}}}"#,
        #"{"":1}"#, #"{"1a":1}"#, #"{"a.b":1}"#, #"{"a b":1}"#, #"{"ä":1}"#,
        #"{"\#(String(repeating: "a", count: 65))":1}"#,
        // What an operator's terminal would obey, or what hides how a text reads.
        #"{"a":"\u001b[2J"}"#, #"{"a":"b\nc"}"#, #"{"a":"\u009b"}"#, #"{"a":"\u202e"}"#, #"{"a":["\u2028"]}"#,
        #"{"a":"\u200b"}"#, #"{"a":"\u007f"}"#,
    ]

    @Test("of another form are refused", arguments: refused)
    func otherForms(_ text: String) throws {
        #expect(try signals(text) == nil)
    }

    @Test("are at most 4 KiB as they are stored")
    func size() throws {
        let room = Signals.sizeLimit - #"{"a":""}"#.utf8.count
        let most = String(repeating: "x", count: room)
        #expect(try signals(#"{"a":"\#(most)"}"#)?.content.count == Signals.sizeLimit)
        #expect(try signals(#"{"a" : "\#(most)"}"#) != nil)
        #expect(try signals(#"{"a":"\#(most)x"}"#) == nil)
    }

    @Test("are read back in their one spelling only")
    func stored() {
        for text in [#"{"a": 1}"#, #"{"a":"\u0062"}"#, #"{"a":null}"#, "", "{}x", "[]"] {
            #expect(Signals(content: Array(text.utf8), claimedAt: 0) == nil, "\(text)")
        }
        #expect(Signals(content: Array("{}".utf8), claimedAt: 0) != nil)
    }

    @Test("have what policies use under its names")
    func claims() throws {
        func claims(_ text: String) throws -> Claims? { try signals(text)?.claims }
        #expect(try claims("{}") == Claims())
        #expect(try claims(#"{"systemVersion":"17.4"}"#)?.system == SystemVersion("17.4"))
        #expect(try claims(#"{"systemVersion":"iOS 16"}"#)?.system == SystemVersion("16"))
        for other in [#""seventeen""#, "17", #""17.4 beta""#, #""""#] {
            #expect(try claims(#"{"systemVersion":\#(other)}"#)?.system == nil)
        }
        #expect(try claims(#"{"isDeviceSecure":false}"#)?.isDeviceSecure == false)
        #expect(try claims(#"{"keyguardManager":{"isDeviceSecure":true}}"#)?.isDeviceSecure == true)
        let both = #"{"isDeviceSecure":false,"keyguardManager":{"isDeviceSecure":true}}"#
        #expect(try claims(both)?.isDeviceSecure == false)
        #expect(try claims(#"{"isDeviceSecure":"true"}"#)?.isDeviceSecure == nil)
    }
}
