internal import Foundation

/// An operation on the simulator's files that failed, described for its user.
public struct SimulatorError: Error, Equatable, CustomStringConvertible, Sendable {
    public let description: String

    public init(_ description: String) { self.description = description }

    /// With what the system says to the call just made.
    static func system(_ doing: String) -> SimulatorError {
        SimulatorError("cannot \(doing): \(String(cString: strerror(errno)))")
    }

    /// The gateway gave no challenge that this device can answer.
    ///
    /// - Parameter status: of the challenge endpoint's response.
    public static func noChallenge(status: Int, denial: String?) -> SimulatorError {
        SimulatorError("the gateway sent no challenge: status \(status)" + (denial.map { ", \($0)" } ?? ""))
    }

    public static func noCertificate(_ path: String, for device: DeviceDirectory) -> SimulatorError {
        SimulatorError(
            "there is no client certificate \(path): get one with attestgate-device enrol, or with attestgate pki issue "
                + "--certificate-key \(device.certificatePublicKeyPath) --out \(path)")
    }
}
