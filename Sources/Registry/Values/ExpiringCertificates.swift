public import Vocabulary

/// A page of certificates that expire soon and that no other has replaced.
public struct ExpiringCertificates: Equatable, Sendable {
    /// A certificate, in the order of expiry.
    public struct Place: Equatable, Sendable {
        /// In seconds since 1970-01-01T00:00:00Z.
        public let notAfter: Int64
        public let serial: CertificateSerial?

        /// Creates the place behind all certificates that have expired at a time.
        public init(after time: Int64) {
            notAfter = time + 1
            serial = nil
        }

        package init(_ serial: CertificateSerial, notAfter: Int64) {
            self.notAfter = notAfter
            self.serial = serial
        }
    }

    /// The ends of those whose key is bound, whose device is not revoked, and whose key has no later certificate. In
    /// seconds since 1970-01-01T00:00:00Z.
    public let ends: [Int64]
    /// The start of the next page. Nil after the last page.
    public let next: Place?

    /// The number of certificates that are examined for a page.
    package static let examined = 1_000

    package init(ends: [Int64], next: Place?) {
        self.ends = ends
        self.next = next
    }
}
