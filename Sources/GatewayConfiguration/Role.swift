/// Which part of the work a process does. The key of the GMS CA is for those who enrol alone.
public enum Role: String, CaseIterable, Sendable {
    /// Serves requests. Never opens a file that the section `enrolment` names.
    case gateway
    /// Enrols devices: no listeners for requests, and none of their files.
    case enrolment
    case both

    public var servesRequests: Bool { self != .enrolment }
    /// Whether devices are enrolled where the conf file has the section for it.
    public var enrols: Bool { self != .gateway }
}
