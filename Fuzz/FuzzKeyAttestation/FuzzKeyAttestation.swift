import Attestation
import Cryptography
import Encoding

/// libFuzzer's entry: key descriptions, chains of certificates, key descriptions within a chain, and status lists.
///
/// Properties: nothing traps; what is read is within its bounds; a verifier that makes all checks and one that stops at the
/// first refusal agree; nothing that Google did not sign for the app is accepted.
///
/// The first byte of the input decides what the rest is read as.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzKeyAttestation(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 2 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: data + 2, count: count - 2))
    let subject = Subject(choice: data[1])
    switch data[0] % 4 {
    case 0: check(description(bytes))
    case 1: subject.judge(certificates(bytes))
    case 2: subject.judge(chain(with: bytes, isRemote: data[0] & 4 != 0, hasAttestKey: data[0] & 8 != 0), bytes)
    default: statusList(bytes)
    }
    return 0
}

private func description(_ bytes: [UInt8]) -> KeyDescription? {
    let span = bytes.span
    do throws(DERFault) { return try KeyDescription(span) } catch { return nil }
}

private func check(_ description: KeyDescription?) {
    guard let description else { return }
    for list in [description.softwareEnforced, description.hardwareEnforced] {
        precondition(list.values.count <= 64)
        for (tag, value) in list.values {
            switch value {
            case .numbers(let numbers): precondition(numbers.count <= 16)
            case .bytes(let bytes):
                precondition(bytes.count <= 64)
                precondition(!(710...717).contains(tag.number) && tag.number != 723, "kept what identifies a phone")
            case .application(let application):
                precondition(application.packages.count <= 64 && application.signingCertificates.count <= 64)
            case .rootOfTrust(let root):
                precondition(root.verifiedBootKey.count <= 512 && root.verifiedBootHash?.count ?? 0 <= 512)
            case .flag, .number, .withheld: break
            }
        }
    }
}

private func statusList(_ bytes: [UInt8]) {
    guard let list = try? AttestationStatusList(bytes) else { return }
    for serial in list.serials { precondition(serial == serial.lowercased()) }
}

/// Kept from one input to the next. libFuzzer has one thread.
nonisolated(unsafe) private let library: LibraryContext = {
    do { return try LibraryContext() } catch { fatalError("\(error)") }
}()

nonisolated(unsafe) private let roots: [Certificate] = {
    do { return try GoogleRoots.keyAttestation(library) } catch { fatalError("\(error)") }
}()

/// A verifier with some requirements, and the circumstances of a verification.
private struct Subject {
    private static let times: [Int64] = [1_531_381_246, 1_681_482_621, 1_771_979_841, 1_790_000_000]

    let verifier: KeyAttestationVerifier
    let time: Int64
    let list: AttestationStatusList?
    private let comparesReports: Bool

    init(choice: UInt8) {
        let app = AndroidApp(
            package: "org.example.app", signingCertificates: [[UInt8](repeating: 0xa5, count: 32)],
            securityLevel: choice & 1 == 0 ? .trustedEnvironment : .strongBox, minimumVersion: 2,
            boot: choice & 2 == 0 ? .verified : .any, minimumPatchLevel: choice & 4 == 0 ? nil : 202_601,
            allowsAttestKey: choice & 8 == 0)
        verifier = KeyAttestationVerifier(apps: [app], roots: .init(google: roots), library)
        time = Self.times[Int(choice >> 4 & 3)]
        comparesReports = choice & 128 != 0
        list = choice & 64 == 0 ? AttestationStatusList(serials: ["5", "9408173275444922801"]) : nil
    }

    /// Verifies a chain that is not genuine, or not the app's.
    ///
    /// - Parameter stated: The leaf's key description, if it is known.
    func judge(_ certificates: [[UInt8]], _ stated: [UInt8]? = nil) {
        let evidence = KeyAttestationEvidence(
            certificates: certificates, clientDataHash: [UInt8](repeating: 7, count: 32))
        let report = verifier.report(evidence, at: time, list, judgesChainOnly: false)
        precondition(!report.isAccepted, "accepted what Google did not sign for the app")
        precondition(report.steps.map(\.step) == KeyAttestationStep.allCases)
        for entry in report.steps {
            guard let fault = entry.outcome.fault else { continue }
            precondition(fault.step == entry.step && !fault.reason.isEmpty)
        }
        do throws(KeyAttestationFault) {
            _ = try verifier.verify(evidence, at: time, list)
            preconditionFailure("accepted what Google did not sign for the app")
        } catch {
            // A report demands no list.
            precondition(error == report.fault, "\(error) first, \(String(describing: report.fault)) of all")
        }
        if comparesReports {
            let chain = verifier.report(evidence, at: time, list, judgesChainOnly: true)
            precondition(chain.description == report.description && chain.publicKey == report.publicKey)
        }
        precondition(report.publicKey.map { $0.count == 65 && $0[0] == 4 } ?? true)
        precondition(report.serials.count <= 6)
        check(report.description)
        guard let stated else { return }
        precondition(report.serials.count == certificates.count, "a well-formed certificate was not read")
        precondition(report.description == description(stated), "the leaf's description has another meaning")
    }
}

/// Divides the input into certificates, each after its length in two bytes. Length 0 and 1 stand for Google's roots.
private func certificates(_ bytes: [UInt8]) -> [[UInt8]] {
    var certificates: [[UInt8]] = []
    var position = 0
    while position + 2 <= bytes.count, certificates.count < 8 {
        let length = Int(bytes[position]) << 8 | Int(bytes[position + 1])
        position += 2
        if length < 2 {
            if let root = try? roots[length].der() { certificates.append(root) }
            continue
        }
        let end = min(bytes.count, position + length)
        certificates.append(Array(bytes[position..<end]))
        position = end
    }
    return certificates
}

/// Returns a chain below Google's RSA root whose signatures are wrong, so that every other check is reached.
private func chain(with description: [UInt8], isRemote: Bool, hasAttestKey: Bool) -> [[UInt8]] {
    let leaf: Name = [("2.5.4.3", "leaf")]
    let own: Name = [("2.5.4.3", "attest key")]
    let upper: [Name] =
        isRemote
        ? [
            [("2.5.4.3", "1"), ("2.5.4.10", "TEE")], [("2.5.4.3", "Droid CA3"), ("2.5.4.10", "Google LLC")],
            [("2.5.4.3", "Droid CA2"), ("2.5.4.10", "Google LLC")],
        ] : [[("2.5.4.12", "TEE"), ("2.5.4.5", "1")], [("2.5.4.12", "TEE"), ("2.5.4.5", "2")]]
    let names = [leaf] + (hasAttestKey ? [own] : []) + upper + [[("2.5.4.5", "f92009e853b6b045")]]
    let stating = hasAttestKey ? 0...1 : 0...0
    return names.indices.dropLast().map { index in
        certificate(
            names[index], issuer: names[index + 1], serial: UInt8(index + 1),
            stating.contains(index) ? description : nil)
    } + [(try? roots[0].der()) ?? []]
}

private typealias Name = [(attribute: String, value: String)]

/// ecdsa-with-SHA256.
private let signatureAlgorithm = DERWriter.sequence([6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2])
/// 1.3.6.1.4.1.11129.2.1.17.
private let descriptionIdentifier: [UInt8] = [6, 10, 0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 1, 17]
/// The generator of P-256 as a SubjectPublicKeyInfo.
private let key: [UInt8] = {
    let point =
        "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    return DERWriter.sequence(
        DERWriter.sequence(
            [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]),
        DERWriter.item([3], [0] + (Hexadecimal.decode(point) ?? [])))
}()

private func certificate(_ subject: Name, issuer: Name, serial: UInt8, _ description: [UInt8]?) -> [UInt8] {
    func name(_ name: Name) -> [UInt8] {
        DERWriter.item(
            [0x30],
            name.flatMap { attribute, value in
                // 2.5.4.N
                let last = UInt8(attribute.split(separator: ".").last ?? "") ?? 3
                return DERWriter.set(
                    DERWriter.sequence([6, 3, 0x55, 4, last], DERWriter.item([0x0c], Array(value.utf8))))
            })
    }
    func time(_ text: String) -> [UInt8] { DERWriter.item([0x17], Array(text.utf8)) }
    let extensions =
        description.map {
            DERWriter.explicit(
                3,
                DERWriter.sequence(DERWriter.sequence(descriptionIdentifier, DERWriter.octetString($0))))
        } ?? []
    let signed = DERWriter.sequence(
        DERWriter.explicit(0, [2, 1, 2]), [2, 1, serial], signatureAlgorithm, name(issuer),
        DERWriter.sequence(time("160526162852Z"), time("360526162852Z")), name(subject), key, extensions)
    let signature = DERWriter.sequence([2, 1, 1], [2, 1, 1])
    return DERWriter.sequence(signed, signatureAlgorithm, DERWriter.item([3], [0] + signature))
}
