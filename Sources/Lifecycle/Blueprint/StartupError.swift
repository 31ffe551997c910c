public import GatewayConfiguration

/// The gateway cannot start, and why.
public struct StartupError: Error, CustomStringConvertible, Sendable {
    public let description: String
    /// What of all that the conf file names is at fault; nil if it is none of that, or nobody knows.
    public let subject: Subject?

    init(_ description: String, of subject: Subject? = nil) {
        self.description = description
        self.subject = subject
    }

    /// The same error with the place where it happened: "listener 127.0.0.1:8443".
    ///
    /// - Parameter otherwise: what is at fault if the error does not say it.
    init(in place: String, _ error: any Error, of otherwise: Subject? = nil) {
        let known: Subject? =
            switch error {
            case let error as StartupError: error.subject
            case let error as FileContents.Failure: .file(error.path)
            default: nil
            }
        self.init("\(place): \(error)", of: known ?? otherwise)
    }
}

/// What is doubtful about a conf file and what it names, but no reason not to start.
public struct StartupWarning: CustomStringConvertible, Equatable, Sendable {
    public let description: String
    public let subject: Subject?

    init(_ description: String, of subject: Subject? = nil) {
        self.description = description
        self.subject = subject
    }
}

extension SourceReferences {
    /// With the line of the conf file that names what is at fault.
    public func diagnostic(_ error: StartupError) -> Diagnostic {
        diagnostic(.error, of: error.subject, error.description)
    }

    /// For a log: with that line, where anything in the file is at fault.
    func reason(_ error: StartupError) -> String {
        error.subject == nil ? error.description : diagnostic(error).description
    }

    public func diagnostic(_ warning: StartupWarning) -> Diagnostic {
        diagnostic(.warning, of: warning.subject, warning.description)
    }
}
