internal import Cryptography

/// What the authenticator data says, and whether an app that is admitted may say so.
extension AttestationExamination {
    mutating func checkForm() throws(AttestationFault) -> Outcome {
        let object = try AttestationObject(bytes.span)
        self.object = object
        guard explains else { return .passed }
        let data = object.data
        findings.rpIDHash = Array(bytes[data.rpIDHash])
        findings.flags = data.flags
        findings.counter = data.counter
        findings.credentialID = Array(bytes[data.credentialID])
        findings.authenticatorData = Array(bytes[data.range])
        return .passed
    }

    /// Apple's step 6.
    mutating func checkRPID() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let found = Digest256(bytes.span.extracting(object.data.rpIDHash))
        let admitted = verifier.apps.filter { $0.rpIDHash == found }
        guard let first = admitted.first else { throw .rpIDMismatch }
        candidates = admitted
        app = first.app
        return .passed
    }

    /// Apple's step 7.
    func checkCounter() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard object.data.counter == 0 else { throw .counterNotZero(object.data.counter) }
        return .passed
    }

    /// Apple's step 8.
    mutating func checkEnvironment() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard let environment = KeyEnvironment(aaguid: bytes.span.extracting(object.data.aaguid)) else {
            throw .environmentMismatch(nil)
        }
        self.environment = environment
        findings.keyEnvironment = environment
        guard let admitted = candidates.first(where: { $0.app.admits(environment) }) else {
            throw .environmentMismatch(environment)
        }
        app = admitted.app
        return .passed
    }

    mutating func checkExtensions() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let found: AppExtensions
        do throws(AuthenticatorDataFault) {
            found = try AuthenticatorData.extensions(bytes.span, in: object.data.extensions)
        } catch {
            throw .extensions(error)
        }
        extensions = found
        bundleVersion = found.bundleVersion.map { String(decoding: bytes[$0], as: UTF8.self) }
        findings.validationCategory = found.validationCategory
        findings.bundleVersion = bundleVersion
        findings.codeDirectoryHash = found.codeDirectoryHash.map { ($0.type, Array(bytes[$0.hash])) }
        return .passed
    }

    func checkValidationCategory() throws(AttestationFault) -> Outcome {
        guard let extensions else { return .notReached }
        if let refusal = app.extensions.refusal(of: extensions.validationCategory) {
            throw .validationCategory(refusal)
        }
        return app.extensions.categories == nil ? .notDemanded(nil) : .passed
    }

    func checkBundleVersion() throws(AttestationFault) -> Outcome {
        guard let extensions else { return .notReached }
        let refusal =
            if let range = extensions.bundleVersion {
                app.extensions.refusal(ofBundleVersion: bytes.span.extracting(range))
            } else {
                app.extensions.refusal(ofBundleVersion: nil)
            }
        if let refusal { throw .bundleVersion(refusal) }
        return app.extensions.minimumVersion == nil ? .notDemanded(nil) : .passed
    }
}
