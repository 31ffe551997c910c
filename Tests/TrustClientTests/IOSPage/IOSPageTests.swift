import Foundation
import Testing

@Suite("The page for iOS developers")
struct IOSPageTests {
    @Test("its Swift code comes from the compiled example")
    func code() throws {
        let repository = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let example = repository.appendingPathComponent("examples/ios")
        let files = try FileManager.default.contentsOfDirectory(at: example, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "swift" }
            .map { try String(contentsOf: $0, encoding: .utf8) }
        let page = try String(contentsOf: repository.appendingPathComponent("docs/ios.md"), encoding: .utf8)
        let blocks = page.components(separatedBy: "```swift\n").dropFirst()
            .map { $0.components(separatedBy: "\n```")[0] }
        #expect(!blocks.isEmpty)
        for block in blocks {
            #expect(files.contains { $0.contains(block) }, "not in examples/ios: \(block.prefix(80))")
        }
    }
}
