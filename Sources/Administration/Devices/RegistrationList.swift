public import Cryptography
public import Registry
public import Vocabulary

/// Devices to be registered, as a file lists them: JSON lines, each a device, as `attestgate-load --prepare` writes them.
///
/// A line is `{"app_id", "public_key", "certificate_key"}` and, if it is not iOS, `"platform"`; the keys as
/// `DeviceKey.init(base64:)` takes them. No line may be empty, so that the first device stands in line 1 and so on.
public struct RegistrationList {
    /// Those of good lines.
    public private(set) var registrations: [DeviceRegistration] = []
    /// What is wrong, in the order of the lines. The list is to be used only if nothing is.
    public private(set) var faults: [Fault] = []
    /// Lines read so far.
    public private(set) var lines = 0

    public struct Fault: Equatable, Sendable {
        /// The first one is 1.
        public let line: Int
        /// For people.
        public let reason: String
    }

    /// The longest line in bytes; one with both keys as SubjectPublicKeyInfo and the longest app id has some 500.
    public static let lineLimit = 2_048
    /// The most lines: some 500 bytes of memory each.
    public static let limit = 1_000_000

    private let environments: [AppID: AttestationEnvironment]
    private let library: LibraryContext
    /// The line of each key so far.
    private var hardwareKeys: [KeyID: Int] = [:]
    private var certificateKeys: [KeyID: Int] = [:]

    /// - Parameter environments: the apps that are configured, and for what.
    public init(environments: [AppID: AttestationEnvironment], _ library: LibraryContext) {
        self.environments = environments
        self.library = library
    }

    /// Reads the next line. - Parameter text: without its end.
    public mutating func append(line text: some Collection<UInt8>) {
        lines += 1
        guard text.count <= Self.lineLimit else { return refuse("The line is longer than \(Self.lineLimit) bytes.") }
        guard lines <= Self.limit else { return refuse("The list has more than \(Self.limit) lines.") }
        do throws(AdministrationFault) {
            let registration = try DeviceRegistration(line: Array(text), environments: environments, library)
            if let line = hardwareKeys.updateValue(lines, forKey: registration.publicKey.id) {
                return refuse("The hardware key is already in line \(line).")
            }
            if let line = certificateKeys.updateValue(lines, forKey: registration.certificateKey.id) {
                return refuse("The certificate key is already in line \(line).")
            }
            registrations.append(registration)
        } catch {
            refuse(error.description)
        }
    }

    private mutating func refuse(_ reason: String) {
        faults.append(Fault(line: lines, reason: reason))
    }
}
