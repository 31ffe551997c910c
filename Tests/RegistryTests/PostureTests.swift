import RegistryMemory
import Testing
import Vocabulary

@testable import Registry

@Suite("Posture")
struct PostureTests {
    @Test("bundle versions are one to three numbers, which are compared one by one")
    func bundleVersions() throws {
        let sorted = ["0", "1", "1.0.1", "1.2", "1.10", "1.10.3", "2", "65536.65535.65535", "4294967295"]
        let versions = try sorted.map { try #require(AppVersion(bundleVersion: $0)) }
        #expect(versions == versions.sorted() && Set(versions).count == sorted.count)
        #expect(versions.map(\.description) == sorted)
        #expect(AppVersion(bundleVersion: "1.0.0") == AppVersion(bundleVersion: "1"))
        #expect(AppVersion(bundleVersion: "01.2")?.description == "1.2")
        for other in ["", ".", "1.", ".1", "1..2", "1.2.3.4", "1.65536", "4294967296", "-1", "+1", "1a", " 1", "1,2"] {
            #expect(AppVersion(bundleVersion: other) == nil, "\(other)")
        }
        #expect(AppVersion(bundleVersion: String(repeating: "9", count: 100)) == nil)
    }

    @Test("a version code is not negative")
    func codes() {
        #expect(AppVersion(code: -1) == nil)
        #expect(AppVersion(code: .max)?.description == "9223372036854775807")
        #expect(AppVersion("70000000000", on: .android) == AppVersion(code: 70_000_000_000))
        #expect(AppVersion("1.2", on: .android) == nil)
        #expect(AppVersion("1.2", on: .iOS) == AppVersion(bundleVersion: "1.2"))
    }

    @Test("verdicts of Google Play keep their names, and unknown ones have no level")
    func integrity() {
        let levels = IntegrityLevels(verdicts: ["MEETS_STRONG_INTEGRITY", "MEETS_BASIC_INTEGRITY", "MEETS_LUCK"])
        #expect(levels == [.basic, .strong])
        #expect(levels.names == ["MEETS_BASIC_INTEGRITY", "MEETS_STRONG_INTEGRITY"])
    }

    @Test("a posture takes no more memory than is said")
    func size() {
        #expect(MemoryLayout<Posture>.stride <= 168)
        #expect(_isPOD(Posture.self))
    }
}
