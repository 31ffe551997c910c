import Federation

/// libFuzzer's entry: forms, and RSD2 documents of services.
///
/// Properties: nothing traps; the same bytes have the same outcome; a document has at most its limit of protocols, and
/// belongs to one server.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzFederation(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let content = Array(UnsafeBufferPointer(start: data, count: count).dropFirst())
    if data[0] & 1 == 0 {
        let form = try? FederationForm(content)
        precondition(form == (try? FederationForm(content)), "the same bytes have two outcomes")
    } else {
        let description = try? ServiceDescription(content, origin: "a.example")
        precondition(description == (try? ServiceDescription(content, origin: "a.example")))
        if let description {
            precondition(description.protocols.count <= ServiceDescription.protocolLimit)
            precondition(description.text == content)
            precondition((try? ServiceDescription(content, origin: "b.example")) == nil, "a link leads elsewhere")
        }
    }
    return 0
}
