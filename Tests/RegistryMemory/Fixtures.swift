internal import Foundation
internal import Glibc
package import Registry
package import Vocabulary

/// A directory for one test, removed with it.
package final class Scratch {
    package let path: String

    /// - Parameter inMemory: whether it may lie where nothing waits for a disk, for one that is simulated anyway.
    package init(inMemory: Bool = false) throws {
        let memory = URL(filePath: "/dev/shm")
        let isThere = inMemory && access(memory.path, W_OK) == 0
        let url = (isThere ? memory : FileManager.default.temporaryDirectory).appending(
            path: "registry-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    package func file(_ name: String = "registry.db") -> String { "\(path)/\(name)" }

    /// What a crash would leave: the file and its log as they are at this moment.
    package func copy(to name: String) throws -> String {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: file() + suffix) {
            try? FileManager.default.removeItem(atPath: file(name) + suffix)
            try FileManager.default.copyItem(atPath: file() + suffix, toPath: file(name) + suffix)
        }
        return file(name)
    }
}

package enum Fixture {
    /// A key id that is different for each number and kind.
    package static func key(_ number: Int, kind: UInt8) -> KeyID {
        var bytes = [UInt8](repeating: kind, count: 32)
        for index in 0..<8 { bytes[24 + index] = UInt8(truncatingIfNeeded: number >> (8 * index)) }
        guard let key = KeyID(digest: bytes.span) else { fatalError("32 bytes are a key id") }
        return key
    }

    package static func hardwareKey(_ number: Int) -> KeyID { key(number, kind: 1) }
    package static func bindingKey(_ number: Int) -> KeyID { key(number, kind: 2) }

    /// The identity of an iPhone, or of an Android phone if three divides the number.
    /// Device `number` of app 1, attested for development.
    package static func developer(_ number: Int) -> DeviceIdentity {
        let (app, own) = (identity(1), identity(number))
        return DeviceIdentity(
            app: app.app, platform: app.platform, environment: .development, hardwareKey: own.hardwareKey,
            point: own.point)
    }

    package static func identity(_ number: Int) -> DeviceIdentity {
        let point = [0x04] + (0..<64).map { UInt8(truncatingIfNeeded: number &+ $0) }
        let name = number % 3 == 0 ? "android:org.example.app" : "ABCDE12345.org.example.app\(number % 3)"
        guard let app = AppID(name), let point = PublicPoint(point) else { fatalError("well-formed") }
        return DeviceIdentity(
            app: app, platform: .standard(for: app), environment: .production, hardwareKey: hardwareKey(number),
            point: point)
    }

    /// A fingerprint that is different for each number and kind.
    package static func fingerprint(_ number: Int, kind: UInt8) -> Fingerprint {
        guard let fingerprint = Fingerprint(key(number, kind: kind).bytes) else { fatalError("32 bytes") }
        return fingerprint
    }

    /// Expires at 2,000.
    package static func nonce(_ number: Int) -> SingleUse {
        SingleUse(id: fingerprint(number, kind: 3), expiresAt: 2_000)
    }
    package static func token(_ number: Int) -> SingleUse {
        SingleUse(id: fingerprint(number, kind: 4), expiresAt: 2_000)
    }
    package static func subject(_ number: Int) -> Fingerprint { fingerprint(number, kind: 5) }

    /// That of a certificate, different for each number.
    package static func serial(_ number: Int) -> CertificateSerial {
        guard let serial = CertificateSerial(random: Array(key(number, kind: 7).bytes.suffix(16))) else {
            fatalError("16 octets")
        }
        return serial
    }

    package static func randomSerial() -> CertificateSerial {
        guard let serial = CertificateSerial(random: RandomID().bytes) else { fatalError("16 octets") }
        return serial
    }

    package static func tag(_ number: Int) -> [UInt8] { Array(fingerprint(number, kind: 10).bytes.suffix(16)) }

    /// What an Android phone has attested, different for each number. One in three states no patch level.
    package static func phone(_ number: Int) -> AttestedPhone {
        let level: UInt32? = number % 3 == 0 ? nil : 202_601
        let phone = AttestedPhone(
            securityLevel: number % 3 == 0 ? .strongBox : .trustedEnvironment, bootState: .verified, isLocked: true,
            bootKey: [UInt8](repeating: 7, count: 32), patchLevel: level, vendorPatchLevel: level.map { $0 * 100 + 5 },
            bootPatchLevel: nil, appVersion: Int64(number),
            integrity: level == nil ? nil : integrity(number), serials: ["abc\(number)", "1f"])
        guard let phone else { fatalError("a short boot key and serials") }
        return phone
    }

    /// The posture of a device without an attestation.
    package static func posture(_ number: Int) -> Posture {
        Posture(platform: identity(number).platform, enrolledAt: 1_000)
    }

    package static func integrity(_ number: Int) -> IntegrityVerdict? {
        IntegrityVerdict(
            devices: ["MEETS_BASIC_INTEGRITY", "MEETS_DEVICE_INTEGRITY"], requestedAt: 1_000 + Int64(number))
    }

    package static func attestation(
        _ number: Int, certificateKey: KeyID? = nil, tag: [UInt8]? = nil
    ) -> AttestationRecord {
        // One in five states no version.
        let record = AttestationRecord(
            digest: fingerprint(number, kind: 6), certificateKey: certificateKey, receipt: [1, 2, 3], riskMetric: 7,
            systemVersion: number % 5 == 0 ? nil : SystemVersion("17.\(number)"),
            tag: tag, phone: number % 2 == 0 ? nil : phone(number))
        guard let record else { fatalError("a small receipt") }
        return record
    }
}

package func window(_ length: Int) -> CounterMode {
    guard let mode = CounterMode(window: length) else { fatalError("1 to 1024") }
    return mode
}

extension InitializationVerdict {
    package var refusal: InitializationRefusal? { if case .refused(let refusal) = self { refusal } else { nil } }
}

extension KeyBindingVerdict {
    package var refusal: KeyBindingRefusal? { if case .refused(let refusal) = self { refusal } else { nil } }
    package var kind: KeyBindingKind? { if case .bound(_, let kind) = self { kind } else { nil } }
    package var details: DeviceDetails? { if case .bound(let details, _) = self { details } else { nil } }
}
