import Testing

@testable import Gateway

@Suite("gRPC calls")
struct GRPCCallTests {
    @Test(
        "calls are recognized by their media type",
        arguments: [
            "application/grpc", "application/grpc+proto", "application/grpc+json", "Application/GRPC",
            "application/grpc;charset=utf-8", "application/grpc ; a=b",
        ])
    func calls(_ contentType: String) {
        #expect(isCall(contentType))
    }

    @Test(
        "similar media types are not calls",
        arguments: [
            "", "application/grp", "application/json", "application/grpc-web", "application/grpc-web+proto",
            "application/grpc-web-text", "application/grpcx", " application/grpc", "text/application/grpc",
            "application/json;application/grpc",
        ])
    func others(_ contentType: String) {
        #expect(!isCall(contentType))
    }

    private func isCall(_ contentType: String) -> Bool { GRPCCall.isMeant(by: Array(contentType.utf8).span) }
}
