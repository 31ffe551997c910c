internal import HTTP

/// Why a connection of HTTP/2 was ended, as the metric has it.
enum HTTP2FaultKind: Int, CaseIterable {
    case preface, violation, failure
    case settings, pings, resets, provokedResets, emptyFrames, priorities, windowUpdates, otherFrames
    case continuations, headerBlock, headerList, outboundFrames

    init(_ fault: HTTP2Fault) {
        switch fault {
        case .prefaceMissing: self = .preface
        case .violation: self = .violation
        case .failed: self = .failure
        case .excess(let excess):
            self =
                switch excess {
                case .settings: .settings
                case .pings: .pings
                case .resets: .resets
                case .provokedResets: .provokedResets
                case .emptyFrames: .emptyFrames
                case .priorities: .priorities
                case .windowUpdates: .windowUpdates
                case .otherFrames: .otherFrames
                case .continuations: .continuations
                case .headerBlock: .headerBlock
                case .headerList: .headerList
                case .outboundFrames: .outboundFrames
                }
        }
    }

    /// In snake case.
    var name: String {
        String(describing: self).reduce(into: "") { $0 += $1.isUppercase ? "_" + $1.lowercased() : String($1) }
    }
}
