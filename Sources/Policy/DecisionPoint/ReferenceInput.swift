internal import Encoding
internal import Registry
internal import Vocabulary

/// The input of the reference system's policies. Its enforcement point is written in Go, whose names of fields and whose
/// reading of queries the policies expect.
extension DecisionQuestion {
    func writeReferenceInput(to input: inout JSONWriter, by settings: DecisionSettings) {
        let facts = settings.facts
        input.object("request", keepsEmpty: true) { request in
            if facts.contains(.method) { request.member("method", method) }
            writeHeaders(to: &request, by: settings, keepsEmpty: true, spelling: Self.canonical)
            if facts.contains(.path) {
                let decoded = PercentEncoding.decode(path.utf8) ?? Array(path.utf8)
                request.member("path", String(decoding: decoded, as: UTF8.self))
            }
            if facts.contains(.query) {
                request.object("query", keepsEmpty: true) { object in
                    for (name, values) in Self.parameters(of: query ?? "") { object.member(name, values) }
                }
            }
            if facts.contains(.path) {
                let shown = facts.contains(.query) ? query : nil
                request.member("url", shown.map { "\(path)?\($0)" } ?? path)
            }
            if facts.contains(.clientNetwork) {
                request.member("clientIP", network)
                request.member("countryCode", country)
            }
        }
        if let tokenClaims {
            input.member("deviceTokenValid", true)
            input.member("deviceTokenPayload", json: tokenClaims)
            return
        }
        guard case .device(let id) = client else { return input.member("deviceTokenValid", false) }
        input.member("deviceTokenValid", true)
        input.object("deviceTokenPayload", keepsEmpty: true) { payload in
            if facts.contains(.platform) { payload.member("type", platform?.rawValue.uppercased()) }
            if facts.contains(.subject) { payload.member("userIdentifier", person) }
            if facts.contains(.device) { payload.member("sub", id) }
            payload.object("deviceHealth") { health in
                if platform == .android {
                    writeAndroidHealth(to: &health, facts)
                } else {
                    writeAppleHealth(to: &health, facts)
                }
            }
        }
    }

    private func writeAppleHealth(to health: inout JSONWriter, _ facts: DecisionFacts) {
        health.object("assertion") { assertion in
            if facts.contains(.app), let appDigest {
                var digest = Base64.encode(appDigest)
                while digest.last == "=" { digest.removeLast() }
                assertion.member("rpID", digest)
            }
            if facts.contains(.posture) { assertion.member("riskMetric", posture?.risk.map { String($0) }) }
        }
        health.object("deviceAttributes") { attributes in
            if facts.contains(.posture) { attributes.member("systemVersion", posture?.system?.description) }
        }
    }

    private func writeAndroidHealth(to health: inout JSONWriter, _ facts: DecisionFacts) {
        let posture = facts.contains(.posture) ? posture : nil
        health.object("integrityVerdict") { verdict in
            verdict.object("appIntegrity") { app in
                if facts.contains(.app) { app.member("packageName", self.app?.package) }
                app.member("versionCode", posture?.app.flatMap { Int64($0.description) })
            }
            verdict.object("deviceIntegrity") { device in
                if let levels = posture?.integrity { device.member("deviceRecognitionVerdict", levels.names) }
            }
        }
        guard let posture else { return }
        health.object("keyIdAttestation") { attestation in
            let level: Int? =
                switch posture.keyProtection {
                case .trustedEnvironment: 1
                case .strongBox: 2
                case .secureEnclave, nil: nil
                }
            attestation.member("attestationSecurityLevel", level)
            attestation.object("teeEnforced") { list in
                list.object("rootOfTrust") { root in
                    root.member("deviceLocked", posture.isBootloaderLocked)
                    root.member("verifiedBootState", posture.boot.map(Self.bootState))
                }
                list.member("osPatchLevel", posture.patchLevel)
                list.member("vendorPatchLevel", posture.vendorPatchLevel)
                list.member("bootPatchLevel", posture.bootPatchLevel)
            }
        }
        health.object("deviceAttributes") { attributes in
            attributes.object("build") { build in
                build.object("version") { version in
                    version.member("release", posture.system?.description)
                    // Android's own form has a day. A month's first level is the least that it can be.
                    guard case .text(let month)? = posture.facts.first(where: { $0.name == .patchLevel })?.value else {
                        return
                    }
                    version.member("securityPatch", month + "-01")
                }
            }
        }
    }

    private static func bootState(_ state: AttestedPhone.BootState) -> String {
        switch state {
        case .verified: "VERIFIED"
        case .selfSigned: "SELF_SIGNED"
        case .unverified: "UNVERIFIED"
        case .failed: "FAILED"
        }
    }

    /// Returns a field's name as Go spells it: the first letter, and each after a hyphen, in upper case.
    static func canonical(_ name: String) -> String {
        var beginsWord = true
        let bytes = name.lowercased().utf8.map { byte in
            defer { beginsWord = byte == UInt8(ascii: "-") }
            return beginsWord && (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte & 0xdf : byte
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the parameters of a query with their values, as Go reads it: sorted by name, without those that are
    /// malformed or contain a semicolon. What is not UTF-8 is replaced.
    static func parameters(of query: String) -> [(name: String, values: [String])] {
        var values: [[UInt8]: [String]] = [:]
        for pair in Array(query.utf8).split(separator: UInt8(ascii: "&")) where !pair.contains(UInt8(ascii: ";")) {
            let end = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            let space = UInt8(ascii: " ")
            guard let name = PercentEncoding.decode(pair[..<end], plus: space),
                let value = PercentEncoding.decode(pair[end...].dropFirst(), plus: space)
            else { continue }
            // Names that are different before and equal after the replacement are one.
            let repaired = Array(String(decoding: name, as: UTF8.self).utf8)
            values[repaired, default: []].append(String(decoding: value, as: UTF8.self))
        }
        return values.sorted { $0.key.lexicographicallyPrecedes($1.key) }
            .map { (String(decoding: $0.key, as: UTF8.self), $0.value) }
    }
}
