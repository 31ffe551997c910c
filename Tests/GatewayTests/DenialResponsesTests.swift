import Bytes
import Foundation
import Testing
import Vocabulary

@testable import Gateway
@testable import Telemetry

@Suite("Denial responses")
struct DenialResponsesTests {
    @Test("every denial is JSON of the announced length", arguments: Denial.allCases)
    func json(_ denial: Denial) throws {
        let responses = DenialResponses(uriPrefix: "https://example.org/#")
        for component in [nil, "x-location"] {
            let refusal = Refusal(denial, "not for the client", component: component)
            var body = ByteBuffer(pool: BufferPool())
            responses.append(refusal, TraceID(high: 1, low: 2), to: &body)
            let bytes = body.copy()
            #expect(UInt64(bytes.count) == responses.contentLength(of: refusal))
            let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: String])
            let code = String(describing: denial.row.code)
            #expect(object["error"] == code && object["error_uri"] == "https://example.org/#\(code)")
            #expect(object["trace_id"] == "00000000000000010000000000000002")
            let sentence = String(describing: denial.row.sentence)
            #expect(object["error_description"] == sentence + (component.map { " Missing: \($0)." } ?? ""))
            #expect(object.count == 4)
        }
    }

    @Test("a gRPC denial has only fields, one line each, with the same content", arguments: Denial.allCases)
    func fields(_ denial: Denial) throws {
        guard let status = denial.grpcStatus else { return }
        let responses = DenialResponses(uriPrefix: "https://example.org/#")
        for (component, missing) in [
            (nil, ""), ("x-location", " Missing: x-location."), ("a%b%", " Missing: a%25b%25."),
        ] {
            let refusal = Refusal(denial, "not for the client", component: component)
            var output = ByteBuffer(pool: BufferPool())
            responses.appendFields(of: refusal, TraceID(high: 1, low: 2), to: &output)
            let code = String(describing: denial.row.code)
            let lines = [
                "grpc-status: \(status.rawValue)", "Attest-Denial: \(code)",
                "grpc-message: \(code): \(denial.row.sentence)\(missing) Trace: 00000000000000010000000000000002",
            ]
            let expected = lines.map { $0 + "\r\n" }.joined()
            #expect(String(decoding: output.copy(), as: UTF8.self) == expected)
        }
    }

    @Test("a gRPC denial escapes every byte of a component")
    func component() throws {
        let responses = DenialResponses(uriPrefix: "")
        let name = String(String.UnicodeScalarView((0...0x7f).map { Unicode.Scalar(UInt8($0)) })) + "ä"
        var output = ByteBuffer(pool: BufferPool())
        responses.appendFields(of: Refusal(.proofIncomplete, component: name), TraceID(high: 1, low: 2), to: &output)
        let text = String(decoding: output.copy(), as: UTF8.self)
        let message = try #require(text.components(separatedBy: "grpc-message: ").last).dropLast(2)
        // gRPC's Percent-Byte-Unencoded: %x20-24 and %x26-7E.
        #expect(message.utf8.allSatisfy { (0x20...0x7e).contains($0) })
        #expect(message.removingPercentEncoding?.contains(" Missing: \(name). Trace: ") == true)
        #expect(message.contains("%00%01") && message.contains("%0D%0E") && message.contains("$%25&"))
    }
}

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
