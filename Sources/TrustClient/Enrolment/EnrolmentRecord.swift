#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
internal import Encoding
public import Vocabulary

/// The progress of a phone with one service. The app stores it durably and passes it to the next enrolment. Exclude it
/// from backups, because it is useless on another phone.
public struct EnrolmentRecord: Equatable, Sendable {
    public enum Step: Equatable, Sendable {
        /// There is no hardware key.
        case begun
        /// There is a hardware key that may not be attested.
        case keyMade(KeyID)
        /// The key is attested. This content was sent or must be sent, always with the same bytes.
        case attested(KeyID, initialization: [UInt8])
        /// The service knows the key, but no certificate key of it.
        case initialized(KeyID)
        /// A certificate was issued.
        case bound(KeyID)
    }

    public let service: EnrolmentServiceAddress
    public internal(set) var step: Step
    /// The point of the certificate key that must be bound first, if the attestation is for one.
    var attestedPoint: [UInt8]?
    /// The tag that an Android app has chosen for its hardware key. Nil on iOS, where it is the key id.
    public internal(set) var chosenTag: [UInt8]?

    /// Creates a record without progress.
    public init(service: EnrolmentServiceAddress) {
        self.service = service
        step = .begun
    }

    /// The phone's hardware key, if it has one.
    public var hardwareKeyID: KeyID? {
        switch step {
        case .begun: nil
        case .keyMade(let key), .attested(let key, _), .initialized(let key), .bound(let key): key
        }
    }

    public var isBound: Bool { if case .bound = step { true } else { false } }
}

// MARK: - Encoding

extension EnrolmentRecord {
    /// Returns the record as JSON. It contains no secret, but a pseudonym of the phone.
    public func encoded() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(Form(self)))
    }

    /// Decodes a record.
    ///
    /// - Parameter bytes: The result of `encoded`.
    /// - Returns: nil for other bytes. An app without its record enrols again.
    public init?(decoding bytes: [UInt8]) {
        guard let form = try? JSONDecoder().decode(Form.self, from: Data(bytes)), let record = form.record else {
            return nil
        }
        self = record
    }

    private struct Form: Codable {
        var url: String
        var provider: String
        var step: String
        var hardwareKey: String?
        var initialization: String?
        var attestedPoint: String?
        var tag: String?

        enum CodingKeys: String, CodingKey {
            case url
            case provider
            case step
            case hardwareKey = "hardware_key"
            case initialization
            case attestedPoint = "attested_point"
            case tag = "hardware_key_tag"
        }

        init(_ record: EnrolmentRecord) {
            url = record.service.url
            provider = record.service.provider
            hardwareKey = record.hardwareKeyID?.base64
            attestedPoint = record.attestedPoint.map(Base64URL.encode)
            tag = record.chosenTag.map(Base64URL.encode)
            switch record.step {
            case .begun: step = "begun"
            case .keyMade: step = "key-made"
            case .attested(_, let content):
                step = "attested"
                initialization = String(decoding: content, as: UTF8.self)
            case .initialized: step = "initialized"
            case .bound: step = "bound"
            }
        }

        var record: EnrolmentRecord? {
            guard let service = EnrolmentServiceAddress(url: url, provider: provider) else { return nil }
            var record = EnrolmentRecord(service: service)
            if let attestedPoint {
                guard let point = Base64URL.decode(attestedPoint), point.count == 65 else { return nil }
                record.attestedPoint = point
            }
            if let tag {
                guard hardwareKey != nil, let bytes = Base64URL.decode(tag), (16...64).contains(bytes.count) else {
                    return nil
                }
                record.chosenTag = bytes
            }
            let key = hardwareKey.flatMap(KeyID.init(base64:))
            guard (key == nil) == (hardwareKey == nil) else { return nil }
            switch (step, key, initialization) {
            case ("begun", nil, nil): break
            case ("key-made", let key?, nil): record.step = .keyMade(key)
            case ("attested", let key?, let content?):
                record.step = .attested(key, initialization: Array(content.utf8))
            case ("initialized", let key?, nil): record.step = .initialized(key)
            case ("bound", let key?, nil): record.step = .bound(key)
            default: return nil
            }
            return record
        }
    }
}
