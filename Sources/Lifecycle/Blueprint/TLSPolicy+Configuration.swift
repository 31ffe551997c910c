internal import GatewayConfiguration
internal import TLS

extension TLSPolicy {
    init(_ name: TLSPolicyName) {
        switch name {
        case .modern: self = .modern
        case .intermediate: self = .intermediate
        }
    }
}
