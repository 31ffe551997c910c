internal import Attestation
package import Cryptography
internal import Encoding
internal import EventLoop

/// The verification of tokens that German health cards have signed with their key for authentication (`EF.C.CH.AUT.E256`).
///
/// A card's certificate counts if one of the configured authorities has issued it. Whether a card was blocked is not
/// checked. Belongs to the thread of its library context.
package struct HealthCards {
    /// The algorithm of cards' signatures: ECDSA on brainpoolP256r1 with SHA-256.
    private static let algorithm = "BP256R1"
    /// `organizationalUnitName`.
    private static let unit = "2.5.4.11"

    private struct Authority {
        let certificate: Certificate
        let key: PublicKey
    }

    private let authorities: [Authority]
    private let library: LibraryContext

    /// - Parameter pem: The authorities' certificates.
    package init(pem: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        authorities = try Certificate.all(inPEM: pem, library).map { certificate throws(CryptographyError) in
            guard certificate.isAuthority, let key = certificate.publicKey else {
                throw CryptographyError(doing: "trust \(certificate.subject): it is not a certification authority")
            }
            return Authority(certificate: certificate, key: key)
        }
        self.library = library
    }

    /// Verifies the card's certificate and its signature of a token.
    ///
    /// - Parameter now: The time in seconds since 1970.
    /// - Returns: the number of the insured person.
    func holder(of token: CompactJWS, now: Int64) throws(EnrolmentFault) -> [UInt8] {
        guard token.header["crit"] == nil, token.header["alg"]?.spells(Self.algorithm) == true else {
            throw .dsr(.algorithm)
        }
        let der = try token.onlyCertificate()
        guard let card = try? Certificate(der: der.span, library) else { throw .dsr(.cardUnreadable) }
        guard let key = card.publicKey, key.isBrainpoolP256 else { throw .dsr(.cardCurve) }
        guard !card.mayBeAuthority, card.isGoodForSignatures else { throw .dsr(.cardPurpose) }
        guard Self.isValid(card, now) else { throw .dsr(.cardOutsideValidity) }
        let holder = try Self.holder(of: card)
        let isIssued = authorities.contains { authority in
            authority.certificate.isNamedIssuer(of: card) && Self.isValid(authority.certificate, now)
                && card.isSigned(by: authority.key)
        }
        guard isIssued else { throw .dsr(.cardUntrusted) }
        let isSigned = try EnrolmentFault.checking { () throws(CryptographyError) in
            try key.verify(
                digest: library.sha256(of: token.signingInput.span), fixedWidthSignature: token.signature.span, library)
        }
        guard isSigned else { throw .dsr(.signature) }
        return holder
    }

    private static func isValid(_ certificate: Certificate, _ now: Int64) -> Bool {
        guard let begin = certificate.notBefore, let end = certificate.notAfter else { return false }
        return begin <= now && now < end
    }

    /// Returns the unchangeable part of the health insurance number: a letter and nine digits. The certificate has it
    /// beside the number of the insurance.
    private static func holder(of card: Certificate) throws(EnrolmentFault) -> [UInt8] {
        let numbers = card.subjectValues(unit).filter { text in
            text.count == 10 && (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(text[0])
                && text.dropFirst().allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains)
        }
        guard numbers.count == 1 else { throw .dsr(.cardHolder) }
        return numbers[0]
    }
}

extension CompactJWS {
    /// Returns the only certificate of `x5c`, in DER (RFC 7515 section 4.1.6).
    func onlyCertificate() throws(EnrolmentFault) -> [UInt8] {
        guard let chain = header["x5c"] else { throw .dsr(.tokenSyntax) }
        guard case .array(let elements) = chain, elements.count == 1 else { throw .dsr(.cardCount) }
        guard let text = elements[0].text, let der = Base64.decode(text) else { throw .dsr(.cardUnreadable) }
        return der
    }
}
