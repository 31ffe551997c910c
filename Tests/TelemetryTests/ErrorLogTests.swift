import Logging
import Testing

@testable import Telemetry

@Suite("The error log")
struct ErrorLogTests {
    private func line(_ message: String, isJSON: Bool) -> String {
        String(decoding: ErrorLog.line(message, .warning, at: 1_795_000_000, isJSON: isJSON), as: UTF8.self)
    }

    @Test("a line is a JSON object, or text for people")
    func forms() {
        #expect(
            line("it \"failed\" \\", isJSON: true)
                == #"{"time":"2026-11-18T11:06:40Z","level":"warning","message":"it \"failed\" \\"}"# + "\n")
        #expect(line("it \"failed\"", isJSON: false) == "2026-11-18T11:06:40Z warning it \"failed\"\n")
    }

    @Test("every line for the journal begins with its priority")
    func priorities() {
        let levels: [(Logger.Level, Character)] = [
            (.critical, "2"), (.error, "3"), (.warning, "4"), (.notice, "5"), (.info, "6"), (.debug, "7"),
        ]
        for (level, priority) in levels {
            for isJSON in [true, false] {
                let line = ErrorLog.line("it failed", level, at: 0, isJSON: isJSON, hasPriority: true)
                let plain = ErrorLog.line("it failed", level, at: 0, isJSON: isJSON)
                #expect(line == Array("<\(priority)>".utf8) + plain)
            }
        }
    }

    @Test("members follow the message in JSON, escaped; text has the message alone")
    func members() {
        func line(isJSON: Bool) -> String {
            String(
                decoding: ErrorLog.line(
                    "m", .notice, members: ["event": "e", "by": "\"x\"\n,\"act\":\"y"], at: 1_795_000_000,
                    isJSON: isJSON),
                as: UTF8.self)
        }
        #expect(
            line(isJSON: true)
                == #"{"time":"2026-11-18T11:06:40Z","level":"notice","message":"m","by":"\"x\" ,\"act\":\"y","event":"e"}"#
                + "\n")
        #expect(line(isJSON: false) == "2026-11-18T11:06:40Z notice m\n")
    }

    @Test("a line contains no control character except its end", arguments: [true, false])
    func controls(isJSON: Bool) {
        let text = line("a\nb\r\u{1b}[31m\u{7f}\u{9b}31mé", isJSON: isJSON)
        #expect(text.contains("a b  [31m  31mé"))
        #expect(text.unicodeScalars.filter { $0.properties.generalCategory == .control }.count == 1)
    }

    /// U+0085, 2028 and 2029 end a line for many readers; the others reverse what stands behind them, or hide.
    @Test(
        "no Unicode character ends the line or reverses its direction",
        arguments: [0x85, 0x061c, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff])
    func invisible(code: UInt32) throws {
        let scalar = try #require(Unicode.Scalar(code))
        for isJSON in [true, false] {
            let text = line("it failed:\(String(Character(scalar)))txt.exe", isJSON: isJSON)
            #expect(text.contains("it failed: txt.exe"))
        }
    }
}
