internal import Glibc

/// The places that the package and its units use.
public enum PackagedPlaces {
    /// The conf file of the units that serve requests: the default of `--config`.
    public static let configuration = "/etc/attestgate/attestgate.yaml"

    /// The conf files of the units, each with the runtime directory that systemd creates for it.
    private static let runtimeDirectories = [
        configuration: "/run/attestgate", "/etc/attestgate/enrolment.yaml": "/run/attestgate-enrolment",
    ]

    /// Returns the directory that systemd created for this process (`RuntimeDirectory=`), or nil without one.
    static func runtimeDirectory() -> String? {
        guard let value = unsafe getenv("RUNTIME_DIRECTORY") else { return nil }
        // systemd separates several with colons (systemd.exec(5)).
        let first = unsafe String(cString: value).prefix { $0 != ":" }
        return first.hasPrefix("/") ? String(first) : nil
    }

    /// Returns the directory of a unit's gateway, for commands that are not started by systemd.
    ///
    /// - Parameter file: The path of the conf file. Nil is returned unless it is a unit's, because a command must not
    ///   reach the gateway of another conf file.
    static func runtimeDirectory(of file: String) -> String? {
        if let own = runtimeDirectory() { return own }
        guard let identity = FileReader.identity(file) else { return nil }
        return runtimeDirectories.first { FileReader.identity($0.key) == identity }?.value
    }
}
