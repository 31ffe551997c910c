public import GatewayConfiguration

/// The reason why the gateway cannot start.
public struct StartupError: Error, CustomStringConvertible, Sendable {
    public let description: String
    /// What is at fault: a file, an address or a server of the conf file. Nil if it is none of these, or unknown.
    public let subject: Subject?

    init(_ description: String, of subject: Subject? = nil) {
        self.description = description
        self.subject = subject
    }

    /// Adds the place to an error: "listener 127.0.0.1:8443".
    ///
    /// - Parameters:
    ///   - otherwise: What is at fault if the error does not state it.
    ///   - section: The section that names what is at fault, if others may name it, too.
    init(in place: String, _ error: any Error, of otherwise: Subject? = nil, section: Place? = nil) {
        let known: Subject? =
            switch error {
            case let error as StartupError: error.subject
            case let error as FileContents.Failure: .file(error.path)
            default: nil
            }
        self.init("\(place): \(error)", of: (known ?? otherwise)?.within(section))
    }
}

/// A doubtful setting, or file that the conf file names, that does not prevent the start.
public struct StartupWarning: CustomStringConvertible, Equatable, Sendable {
    public let description: String
    public let subject: Subject?

    init(_ description: String, of subject: Subject? = nil) {
        self.description = description
        self.subject = subject
    }
}

extension SourceReferences {
    /// Returns the error with the line of the conf file that names what is at fault.
    public func diagnostic(_ error: StartupError) -> Diagnostic {
        diagnostic(.error, of: error.subject, error.description)
    }

    /// Returns the text for the log, with that line if something in the file is at fault.
    func reason(_ error: StartupError) -> String {
        error.subject == nil ? error.description : diagnostic(error).description
    }

    public func diagnostic(_ warning: StartupWarning) -> Diagnostic {
        diagnostic(.warning, of: warning.subject, warning.description)
    }
}
