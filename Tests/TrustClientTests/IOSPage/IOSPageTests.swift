import Foundation
import Testing

@Suite("The page for iOS developers")
struct IOSPageTests {
    private static func text(_ path: String, in directory: URL) throws -> String {
        String(decoding: try Data(contentsOf: directory.appendingPathComponent(path)), as: UTF8.self)
    }

    @Test("its code is the code that is compiled here, all of it, in order")
    func code() throws {
        let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let page = try Self.text("../../../docs/ios.md", in: here)
        let code = try Self.text("IOSPageCode.swift", in: here)
        var rest = code[try #require(code.range(of: "IOSPageTests compares.\n")).upperBound...]
        // What an app imports there is the page's alone.
        let blocks = page.components(separatedBy: "```swift\n").dropFirst().map { block in
            block.components(separatedBy: "\n```")[0]
        }.filter { !$0.hasPrefix("import ") }
        for block in blocks {
            let range = try #require(rest.range(of: block), "not compiled: \(block.prefix(80))")
            let skipped = rest[..<range.lowerBound].trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(skipped.isEmpty, "not on the page: \(skipped.prefix(80))")
            rest = rest[range.upperBound...]
        }
        #expect(rest.trimmingCharacters(in: .whitespacesAndNewlines).isEmpty)
    }
}
