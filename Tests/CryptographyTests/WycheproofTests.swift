import Cryptography
import Encoding
import TestVectors
import Testing

/// Edge cases of Project Wycheproof (github.com/C2SP/wycheproof, Apache License 2.0): inputs and outcomes of
/// `aes_wrap_test.json`, `aes_gcm_test.json` and `ecdsa_secp256r1_sha256_p1363_test.json` in `testvectors_v1`.
///
/// Each entry has its `tcId` there, the outcome, and base64url of the inputs; `-` is no byte. Only what this module
/// offers is valid: AES with 256 bits, vectors of 96 bits, tags of 128 bits, wrapped keys of 24 to 72 bytes.
@Suite("Edge cases of Wycheproof")
struct WycheproofTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    /// An entry of a table.
    private struct Entry {
        let id: Substring
        let isValid: Bool
        let inputs: [[UInt8]]
    }

    /// Reads a table whose entries have this number of inputs.
    private func entries(_ table: String, inputs: Int) throws -> [Entry] {
        let words = table.split { $0 == " " || $0 == "\n" }
        let size = inputs + 2
        #expect(words.count.isMultiple(of: size))
        return try stride(from: 0, to: words.count, by: size).map { start in
            let entry = words[start..<(start + size)]
            let outcome = entry[start + 1]
            #expect(outcome == "valid" || outcome == "refused")
            return Entry(
                id: entry[start], isValid: outcome == "valid",
                inputs: try entry.dropFirst(2).map { word in
                    try #require(word == "-" ? [] : Base64URL.decode(String(word)))
                })
        }
    }

    @Test("AES Key Wrap: other initial values, other lengths, a key of one block")
    func keyWrap() throws {
        for entry in try entries(Self.keyWrapTable, inputs: 3) {
            let key = try #require(SecretKey(entry.inputs[0]))
            let unwrapped = try key.unwrap(entry.inputs[1], library)
            #expect(unwrapped == (entry.isValid ? entry.inputs[2] : nil), "\(entry.id)")
        }
    }

    @Test("AES-GCM: changed and truncated tags, other lengths of the vector, counters that overflow")
    func gcm() throws {
        for entry in try entries(Self.gcmTable, inputs: 6) {
            let (key, nonce, tag) = (try #require(SecretKey(entry.inputs[0])), entry.inputs[1], entry.inputs[2])
            let (data, ciphertext) = (entry.inputs[3], entry.inputs[4])
            func open(_ tag: [UInt8]) throws -> [UInt8]? {
                try key.open(ciphertext, nonce: nonce, authenticating: data, tag: tag, library)
            }
            #expect(try open(tag) == (entry.isValid ? entry.inputs[5] : nil), "\(entry.id)")
            for length in 0..<16 { #expect(try open(Array(tag.prefix(length))) == nil, "\(entry.id)") }
            #expect(try open(tag + [0]) == nil)
        }
    }

    private func isSigned(_ message: [UInt8], _ signature: [UInt8], by point: [UInt8]) throws -> Bool {
        let key = try P256VerificationKey(point: point.span, library)
        return key.verify(digest: try library.sha256(of: message.span), fixedWidthSignature: signature.span)
    }

    @Test("ECDSA: extreme keys, digests, r and s, and signatures of another length")
    func signatures() throws {
        for entry in try entries(Self.signatureTable, inputs: 3) {
            let isSigned = try isSigned(entry.inputs[0], entry.inputs[2], by: [4] + entry.inputs[1])
            #expect(isSigned == entry.isValid, "\(entry.id)")
        }
    }

    @Test("ECDSA: no pair of special values is a signature (tcId 11 to 59)")
    func specialValues() throws {
        let point = try #require(Base64URL.decode(Self.specialKey))
        // 0, 1, the order and its neighbours, the prime of the field and its successor.
        let values = [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000001",
            "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550",
            "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
            "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632552",
            "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
            "ffffffff00000001000000000000000000000001000000000000000000000000",
        ].map(hex)
        for r in values {
            for s in values { #expect(try !isSigned(Array("123400".utf8), r + s, by: [4] + point)) }
        }
    }

    private static let specialKey =
        "KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg"

    /// The key, the wrapped key and the key in it.
    private static let keyWrapTable = """
        98 valid _OBCnGEGWO-OfPsBVMUd4iOaijF_WvW2cU-YX7XE11w lAscWA4McjOnkbDxkkONLqzhQhTO5FW3
        KHMmte0AeOfKAWTXSPZn5w
        99 valid DdptpRI-LDfG-ha6DTNM0BrNZS-JlCEXUd-rT6rC_CI k5sziTNv6kqXUb8BTvGAETIwkOigUAvE
        tAtoKHKbRWMiqNBlq8DQgQ
        100 valid 1pJZFM0GMI-BrZHiMHNZPZnU5QNRsg6yqNGhrEztZYg We6OUZiGEjf2gu3sa6kGUmwBbU2TWUK9
        A3sns9yVsZ0VvUCR4yC_4Q
        101 valid B1GKgsvI2h3OxV83Y6IG0ndIer0Dzt0Li--e4vsVcSE GrU6Bl2Pd2oIsz5RODBxtvFUYSEWZVE3vTt-wptw_VY
        -qRmTXn848fS_dRi9sHEI8L45rab4uBx
        102 valid 6kaZHU5x9T3WJOf-f94RlEp8WULSMjabgGXUK4zS3eE ob-Oc-P6HbdZ8KsqsLHKbyyFtj2D4l96C1KT0KIWorc
        3_xc8d1UEdAV2EYB-jjfXv_ohcfyakgl
        103 valid _c-pAsbyIvUnr4TaUzsUtS4mFdo6idHTVwiwzUn2DYc JzCKDhpsCh0V1hdKt9aGdSB7YV3xb896PGmyX1Ucyp8
        lmsHBHNUlmpwPnlge1VgMvT1lrf5IG8F
        104 valid OOGx0HXZ2FK5psAcj_aWWvAbrEV6TjOa4-HXsv-swM0
        cVXukysDWNmBgqI_f0J8d0qzQKR1fQtqY_rNPekFeEOM8DIBw_iAVw gK1oIPHJCYHiykK4F6NFwRedChHY4jqK3AUF4T2HKVo
        105 valid xkHxaJ2Byqi6N9iVJyJAZkBU7ZdM__xA5sXAytG5Fsc
        8gubVTvAhHUp-NQ3n6kJIR5oJJvUKfQ2xhXExKXZ8aGWjwuJxSN7MA P9C6GZVeRnSfVNiOmdCAtzOdWI_mEuwPQCHKPKIQQnA
        106 valid qgq51o7UoE5yP4G0TAyI0LzeeoDP1HbrS4g22aoB7Ew
        KBFxaFSiFK7N0xjGZwubKnURcTyaDA-oBSMP8Fz4SveV3XL2waRFEg V_qodm9tagqhz2Q_hXwVDfWzEwO1CvSA4hxLXoyKFdU
        108 refused V0lXFR_Cr-D6Pcepp9pklTmPGOoNju12pRqslgOK1pI pqampqampqY -
        109 refused V0lXFR_Cr-D6Pcepp9pklTmPGOoNju12pRqslgOK1pI miSunGjUk4dtDD0oiZhDDg AAECAwQFBgc
        110 refused V0lXFR_Cr-D6Pcepp9pklTmPGOoNju12pRqslgOK1pI GBumo6Q5JGnj3pjdu90kMg AAECAwQFBgc
        119 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc - -
        120 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc nw -
        121 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc 3J6VgA -
        122 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc ubKC0ThpMAA -
        123 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc DvxjWy1h4kQFa51Fkcpr -
        124 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc SjBdrgh7DSTWKvQYMTOPM64 -
        125 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc gsuScJfPMepK_-pECw2MpqJAuQA -
        126 refused _mD8jffZ9Ou1QWyk6CGC9-mSOnRhEP2XjjvS3vwcENc ffvXz2FY11u1kAs78eOHEANAKmUIsZEoAA
        AAECAwQFBgcICQoLDA0ODw
        127 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c pBdnG8YqI8emVUMJISQCTfcsBI2NszDH
        qCjL2ptf8K43T4T6AdBwpQ
        128 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c MKmDzZ5p1WGsyVxCslKrpBhfg5Ly5sk1yOsQWvgILjQ
        qCjL2ptf8K43T4T6AdBwpfChegxGK-Tx
        129 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c
        3Xjr0wkcVaXaWyRQQgD3-t0bOsatNfgU9zPmA8E5NiRdadg_Ji9rHg qCjL2ptf8K43T4T6AdBwpfChegxGK-TxrM40lzUmkIw
        130 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c lRjQ-Z16c-1KUCtEnBTChZcbDmF3zg7K
        qCjL2ptf8K43T4T6AdBwpQ
        131 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c TemmObeZYwtFtJ4o2_xE2ruYQ-5Yioz_KGuNX717Mu4
        qCjL2ptf8K43T4T6AdBwpfChegxGK-Tx
        132 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c
        PYM46ufeMiOZ4dG0o99UMmskK1Y2EupLJ9oioEHTyAlmkRvACZEXYQ qCjL2ptf8K43T4T6AdBwpfChegxGK-TxrM40lzUmkIw
        133 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c 81EfBJG9dK4d77Uwfw4Y24ZLV7XEBNQo
        qCjL2ptf8K43T4T6AdBwpQ
        134 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c 2RWyzft2nZ2CJZ3D0SRka7-XK4Pv1MLq6bn3UQc_eNY
        qCjL2ptf8K43T4T6AdBwpfChegxGK-Tx
        135 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c
        0Ev3XK3TtfCZw0snqR5kqPLbzwjoxcHJ8Hp3fuuAXV0OjFwBr8Q5RA qCjL2ptf8K43T4T6AdBwpfChegxGK-TxrM40lzUmkIw
        136 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c bAPOd5JZZhxD1B1dDkVof4dDU7ulFsc-
        qCjL2ptf8K43T4T6AdBwpQ
        137 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c EX1lP0gLafzlZPH-mVckkpRRie1a94nOBaJlG6-Qu14
        qCjL2ptf8K43T4T6AdBwpfChegxGK-Tx
        138 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c
        vgxdGTthxRN6j9im19Htjw-ijOxRb1RGl8Eq3U-PTVz8pl7esQGZdA qCjL2ptf8K43T4T6AdBwpfChegxGK-TxrM40lzUmkIw
        139 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c jfAZaaEchwJlNb_M9ysdBkyG7MflInFX
        qCjL2ptf8K43T4T6AdBwpQ
        140 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c gibQei-RniStoQgcaadVIL6JXjor2puAXZdHdz3eqjg
        qCjL2ptf8K43T4T6AdBwpfChegxGK-Tx
        141 refused T3EOtrXihwO-z8PcUvqLwd1EpKbTioS0-U6JrDLZh-c
        qD68vrK-nWgHtc_DHImEnRND3U6yLlv-nisrN5CtiQBgHx9dVP1HLw qCjL2ptf8K43T4T6AdBwpfChegxGK-TxrM40lzUmkIw
        163 valid AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 ZOjD-c4PW6Jj6Xd5BYGKKpPIGR59born
        ABEiM0RVZneImaq7zN3u_w
        164 valid AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 qPm8FhLGiz_25vT74w5x5Haci4CjLLiVjNXRfWslTaE
        ABEiM0RVZneImaq7zN3u_wABAgMEBQYH
        165 valid AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8
        KMn0BMS4EPTLzLNc-4f4Jj9XhuLYDtMmy8fw5xqZ9Dv7mIubegLdIQ ABEiM0RVZneImaq7zN3u_wABAgMEBQYHCAkKCwwNDg8
        """

    /// Key, vector, tag, authenticated data, ciphertext and plaintext.
    private static let gcmTable = """
        91 valid kqzj40jNghCSzZIao1RjdCmatGIJaRvCi4dS0X8SPCA ABEiM0RVZneImaq7 mkoleVKTAbz7cceNQGD1LA AAAAAP____8
        4nq90tKlPS8Taw AAECAwQFBgcICQ
        92 valid KdOkT4cj3GQCORAMNlQjoxKTSsgCOSEqw980IaIJgSM ABEiM0RVZneImaq7 Kn13-lJrglDLKWB4kmtQIA qrvM3e7_ -
        -
        96 valid ZxGWJ72YjtqQYhngjA0Nd5oH0gjOik_gcJr3Ve7sbcs aKt_2_YZAdrUYdI8 7ASqy3FIqLi-RMt-r076aQ -
        Q_wQG_9LMr-t09r1elkO UfjB9zHqFKzbIQptlz4H
        100 valid snn1fhnI9T8vlj9fJRn9t8F3m-LKKzro4RKLfWxif8Q mLwsdDjVzXZl129u 7LZg4fsFQexB6NaKZBQbOg wA
        61UA44JZUoZtkRJT-N6GDACDHIE _MUVspRAjIZFyRg-P07O5RJ4RtE
        104 valid bvypgSaRirVk2Ixr7ALomYsr5Q4_kG_5rf3RhfNz51Y Sr1s_IO9BrEe-qKn J6yMQBDY6BtwUc6wazD-LQ -
        l7THOk2LWyG8S1Dbtw36d7Gnvwu-fPFuz1u2C6gHCsxXQHgENe0UWmKmE92YgbchFo-7P1rzhe5dT4Vs-Ty6
        u-x5wIbUHmAtCQ9-QElNa_P6odxt8KuKiOpdNdQmskjCrYgDUeIj9hcNN8yWVeEEWeWcvW0cCS7THXLMx68g
        116 valid DxEuWc3M2FHDuOdsnwWjt8Lk_spYRq_rNRwcvKzoLwQ cUeXMznYZ4miyalY 2Nk_-XXLmI8JF03NQ5y2pA
        NxKL5F8KfzKVRuFJLDycLSU01bH1FH5Jq5EiHnw-3qIbvke_42GUN848YebpRsUE80gpaRghnlG_LFWYWJz_
        YYrGJq4OjQbC_S-2a-JT3Cbtbjg EC5YBN2h-11lYHftsVyttdC97ow
        128 valid ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 AAAAAAAAAAAAAAAA _____________________w -
        Iyk-mwfKfRsMrnzEialzsw VhAI-gemj1xhKFzQE0ZOrw
        129 valid ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 ________________ AAAAAAAAAAAAAAAAAAAAAA -
        fLb8fGq8AJ7-lVGpnzakIQ xhUiRM6hl40-C8J0z4wLOw
        130 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nej-9tirG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        131 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nuj-9tirG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        132 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb HOj-9tirG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        133 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOn-9tirG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        134 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-dtirG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        135 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tmrG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        136 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tqrG_G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        137 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG3G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        138 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G-iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        139 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_E_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        140 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_qHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        141 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHMy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        142 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy67WQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        143 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy6LWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        144 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIyarWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        145 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy6rWQ3A -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        146 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy6rWQ3w -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        147 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy6rWQnQ -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        148 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG_G_iHIy6rWQXQ -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        149 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nej-9tirG_G-iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        150 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-dtirG3G_iHIy6rWQ3Q -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        151 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nOj-9tirG3G_iHIy6rWQXQ -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        152 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb YxcBCSdU5A5Ad43NFUpvIg -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        153 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb AAAAAAAAAAAAAAAAAAAAAA -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        154 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb _____________________w -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        155 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb HGh-dlgrm3E_CPKyajUQXQ -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        156 refused AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 UFFSU1RVVldYWVpb nen_99mqGvC-iXMz67SR3A -
        sgYUV8B1n8F0nxdO4cyt-g ICEiIyQlJicoKSorLC0uLw
        240 refused ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 XC6ptpX89uJkuWB01r-lcg 1YCKG9EaARKb88aRmv8jOQ -
        KOHFIy9O6BYdvkwDYwngsyVOkhK-8Kk0Mc5eVgTI9qc8GKMYMBi3cA
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
        241 refused ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 V7OoHyw2trBld8oPurj6jg gTLoZbadZO832yYfgMu-JA -
        zO6-tP5M2QxRTlLSMnouzXU5NmEAbPJHbYYgFJrvPRzc5JH_8-enow
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
        252 refused ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 AAAAAAAAAAAAAAAAAAAAAA AAAAAAAAAAAAAAAAAAAAAA -
        JlxC4rluod6cJPcYLjNzkA jXTxyXJD02JXf_N2w5PS3A
        253 refused ABEiM0RVZneImaq7zN3u_xAhMkNUZXaHmKm6y9zt_g8 _____________________w _____________________w -
        mI9HZo6mUMuqZxRxGr4mjQ iE3w52884ie_lZXRA4JaRg
        263 refused 6YsGaaZF6xTNBt9paPxfEO3J9U_u0mTj1BDNxhty71E F8olD7czh3VWJjIj6t3h NrFbq2kjsXIY_hwkBI4jkQ -
        _CE2AqpCO4fXwqh0 84Sz7XsnRkH122DP
        264 refused hJs-a4zdhb3PuOtwGqVSKuI0D75SFOOJYizvdpeSJcQ D51u1-7zYt-kp9-lwPdMWye9Tr8
        fPA20jXTst00moyAS2UUSg - wddiM-jFBC6Sv40y jFVk5TBRwN4nMZm0
        299 refused j5o4wQFJZuTZrnNhOcXnm5k0WHT0LUx9LIGqZ5fEF8A qQ KiaL86df17ALojC5BLuwFA - - -
        300 refused FEzYJ5Ip6Lst6Z0k5hUwZmORP-kXf80nD6_sST1DvKE sw i7rUrcVLN6Ky8PboYXVIyQ -
        e-ow7ML3P44SEmOzeWaVTA l2Ip9VOPljZHbWnwwyjinQ
        315 refused P4yke5qUBYJkTo7PnC1E6BODd6g3nFwRqv5_7BmFbPE - FyaqaV-6ohoduIRVxnCksA - - -
        316 refused dmDRCWbGUDkDpVLd4qgJ7enaSQ5eXMPjSdqZlnGAmIM - j-BSCtdEoR8Mz9IoRUNj-g -
        d3LqNYkB9XHT01wZSXY52Q wxQjU0Hev6-hUmu2EESn8Q
        """

    /// The message, the key's coordinates and the signature.
    private static let signatureTable = """
        1 valid MTIzNDAw KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        K6OovmuU1eyAptnRGQpDbv_lDYWh7uhZuMxq-b1cLhhM1guFXUQvWzx7EetsTgrnUl_nEPq5qnx3pn955vrddg
        2 refused MTIzNDAw
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        ASujqL1rlNXtgKbZ0RkKQ268zAgzSQaG3qyGNby5v1NpALMp9Hmiu9Clw4TuFJOx9RhqhxOcrF30CHwTS0kVaEfb
        4 refused MTIzNDAw
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        1FxXQJRrKhR_WSYu5vW8kL0B7SgFKLYrOu1fyT8G9zmzKfR5orvQpcOE7hSTsfUYaocTnKxd9Ah8E0tJFWhH2w
        5 refused MTIzNDAw
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        ASujqL5rlNXsgKbZ0RkKQ27_5Q2Foe7oWbjMavm9XC4YALMp9Hmiu9Clw4TuFJOx9RhqhxOcrF30CHwTS0kVaEfb
        7 refused MTIzNDAw
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        AbMp9Hiiu9Cmw4TuFJOx9Rgnbg5KU3WSjW_NFgwRy20sALMp9Hmiu9Clw4TuFJOx9RhqhxOcrF30CHwTS0kVaEfb
        9 refused MTIzNDAw
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        AbMp9Hmiu9Clw4TuFJOx9RhqhxOcrF30CHwTS0kVaEfbALMp9Hmiu9Clw4TuFJOx9RhqhxOcrF30CHwTS0kVaEfb
        60 valid Njk4MTk KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        ZKGqtQANDoBPPi_AK97pvo_zEjNOK6FtEVR8l3EciY5q8BWXHMML5tGiBtTgE-CZd3Ki-R1zKG_9aDubss9PGw
        61 valid NDI2NDc5NzI0
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        Fq6pZKL2UG1veMgckfx-i97X05dzhEjeHhmg7FgL8mYlLNdiEwxmZ8_ot7xH0n14OR6OgMV40c04w_8DO-ko6Q
        68 valid MTM1MTUzMDM3MA
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        n2rf6NXrWywk16p5NLbPKck-p2zTE8kTK7DI44yWgx2yapyeQOVe4IkMlEzycXVskGoz5mtb0V4FFZOIO16ZAg
        88 valid OTUzOTA0MTA1
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        l1vXFXqNNjswnx9EQBKxodIwllkxM-cbTKiwWc_zfq9_qnooscgiuqJBeT8qvJML1MaYQP4JDyqsxGeGv5GWIg
        104 valid NjIxNTUyNDY
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        rQGfdMaUHSDv2nC0bFPbFmUDoOOT6TL2iCJ2iLpqV2KTMg63ygcQJVNGvbsxAs3PeWTvLgmI5xK8Be_hbBmTRQ
        114 valid NDg0MjQ1NDI1
        KSexBRK64-3c_kZ4KBKLrSkDJpkZ9whgacjE32xzKDjHeHlk6qwA5ZIfsUmKYPRgZ2az2WhQAVWNGpdOc0FRPg
        kUxn-2HdHifIZzmOpzItWrdt8EvFqmaDqODzCl0oc0j6B0dAMUgd2klT46wZWe6M6n5m7EErONbJbSj203ME6g
        115 valid MTIzNDAw
        CtmVACiNRmlAAx1yqfVEWk1DeEZAhVvwpph00t5f4QPFAR5u8sQtzVDV09Kfma5uuiyAySRPTFQi8Jef8MO6Xg
        AAAAAAAAAAAAAAAAAAAAAEMZBVNY6GF7DEY1PQOc2qv_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        116 refused MTIzNDAw
        CtmVACiNRmlAAx1yqfVEWk1DeEZAhVvwpph00t5f4QPFAR5u8sQtzVDV09Kfma5uuiyAySRPTFQi8Jef8MO6Xg
        _____wAAAAEAAAAAAAAAAAAAAAD_______________z_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        117 valid MTIzNDAw
        qwX9nQ3ia5zm9IGWUtn8aRk9CqOY8PuoAT4JxYIgRVQZI1JxIox4Z1kJXRK3WvBpLdQQPxn2qMMvSUNaHpuNRQ
        _____wAAAAD__________7zm-q2nF56E87nKwvxjJU______AAAAAP__________vOb6racXnoTzucrC_GMlTg
        118 valid MTIzNDAw
        gJhPOaH_OKhqaKpCAba-Xfv-z4diGXELB7rfb91MbFYR_rlzkNmCbnoG37QYcclA10QV7TysIInxRFAZu1XtlQ
        f_________________________________________2QkTW9tnmShhcPXq0t5PZRFFP-UJFPPfLeVKNjg9-N1A
        120 valid MTIzNDAw
        pxr2TeUSakpOAreSLWbOlBXOiKTJ0lUU2RCCyHJayVddR3I8j75YC7Np_snCZl2OMKQ1uZMmRUgufJ8R6HIpaw
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQ
        121 refused MTIzNDAw
        pxr2TeUSakpOAreSLWbOlBXOiKTJ0lUU2RCCyHJayVddR3I8j75YC7Np_snCZl2OMKQ1uZMmRUgufJ8R6HIpaw BQE
        122 valid MTIzNDAw
        ZifOxPBzHqI_wpMfkOvlt1cvWX0g3wj8KzHujvFrFXJhcO132NChT8XJw8TJvn8NPuGPcJuyderyBz4lj-aUpQ
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAw
        134 valid MTIzNDAw
        0D6wmRPMIMao0AcPDY0qf2NSf6-kQRf85r0e8qpK48RtXfP0WsWPozTG0QI4GzEgt6JFVgDcr_PRqEVRTxK_Rg
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABw
        135 refused MTIzNDAw
        0D6wmRPMIMao0AcPDY0qf2NSf6-kQRf85r0e8qpK48RtXfP0WsWPozTG0QI4GzEgt6JFVgDcr_PRqEVRTxK_Rg Bgc
        136 refused MTIzNDAw
        0D6wmRPMIMao0AcPDY0qf2NSf6-kQRf85r0e8qpK48RtXfP0WsWPozTG0QI4GzEgt6JFVgDcr_PRqEVRTxK_Rg
        _____wAAAAD__________7zm-q2nF56E87nKwvxjJVcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABw
        137 refused MTIzNDAw
        OnJHYpFXEZO00Qmyw3tZ8oB-j-nP_YBOrN7ZA-d8oNpZLbx0_uDKdQjMe8KCsMUaFDKG_1PGATFmjnoJKeTtBA
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAb_____AAAAAP__________vOb6racXnoTzucrC_HX72A
        138 valid MTIzNDAw
        0Pc3kiA3Fq_UvkMp-qSNJp8VMT67ujedd4PJe_PokNmXH0oyBmBb7CF4K_XidccUQX6PVmVJ5rxoaQ0jY8icwQ
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQCPHjx4YsWLFrt27du3bt27UWr09j8tdNduDSjJu3XqiA
        140 valid MTIzNDAw
        c5OYPKMKUgu8R4PcmWB0aqtETvUgwKjncRGapOdLD2Tp174asBoL9ibnCYY-akhtuvMnk6_M93Tixs0nsYV1Jg
        AAAAAAAAAAAAAAAAAAAAAAAAABAz5n43sytEVYC_Tv-LdIt0AAAAAIt0i3SLdIt0ZudprUoW09zYcSm46R0bTQ
        142 valid MTIzNDAw
        HSCb6N4t6HcJWjmdOQTHTMRY2Sbie7jljl6uV2fEFQndWeBMIU97GNzjUfwqVJiTpoYOgBY_OMxgpPLJ0EDYyQ
        AAAAAAAAAAAAAAAAAAAAAAAAAAYlIrvT7L58Oek-fCXvn2uk2XwJ0DF4-iC0qq2Dvjz5y4JKh5_sMnD8S4HvWw
        143 valid MTIzNDAw
        CDU5--5EYl46yq-i_LQTSTks7wYzobj6vs7gwTOxDpmRXB6-e_AN-FNRlncKWAR64qQC8mMmu31B1NdhYzeRHg
        _____wAAAAD__________7zm-q2nF56E87nKwvxjJNVVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        144 valid MTIzNDAw
        4HXv_ZYH0I1fNONlL2TPo71tIMWNCiMvBYSRJgqyEqTMYXYKyLBoDBtkTAPMYoup3Eo8BWE2hInGkr1A9Dqjyg
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAnET-vzHDWU8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACDntKCR8Kwaw
        145 refused MTIzNDAw
        4HXv_ZYH0I1fNONlL2TPo71tIMWNCiMvBYSRJgqyEqTMYXYKyLBoDBtkTAPMYoup3Eo8BWE2hInGkr1A9Dqjyg
        nET-vzHDWU-DntKCR8Kwaw
        152 valid MTIzNDAw
        ius2inAnpNZKveo3OQwMHWom85ni2XNN4es9Dhk3OHQFvRODRxXh266bh1zwe9VeG2aRx_dTau87Gb96St9XbQ
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQ
        153 refused MTIzNDAw
        ius2inAnpNZKveo3OQwMHWom85ni2XNN4es9Dhk3OHQFvRODRxXh266bh1zwe9VeG2aRx_dTau87Gb96St9XbQ
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
        154 valid MTIzNDAw
        YXIuq6cxxpfHqbpNCv27VxPYqhKw6rYBuzPbr3ksWtwnLNmTsrZjq6WzomwQEYL_F4aElF6Dh55xWYuV_mR9_A
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHAC9naWn0UajMr6TE8JeRgQ5tYy29YLHVVA8yhPvhiJsA
        155 valid MTIzNDAw
        xMkZgecg4g1-R4_xnQm5Wpj1jA9Gm3KAGozoRKNHMWWUr81BiBgud3mImzJY0DaOzh5meX_nxkjG8Lnia9cYcQ
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHBOJgli4zNi7wBGEm0tWk7caUerIOGbjsGc955ZCLbmKA
        156 valid MTIzNDAw
        1Y1Hv0m8j0FmQfb3YPy8qAqlKoFOVqX6QLq0T9b2MXIW3qqE1F2ODinMns9WU_juZER1CBO-yujetCsEugemNA
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHAHftDY8g9pfY_Fkaxk3VIZx5MhIrT5uexkQeRKAJLPIQ
        169 refused MTIzNDAw
        tTPUaV3VuMXgd1flXm5Rb34siPoCOeI_YOjsB91w8ocbE07ljMWDJ4RWhj8zw6hdiB99SjmFAUPinU6vAJr-Rw
        f____4AAAAB__________95zfVbTi89CedzlYX4xkqhVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        170 valid MTIzNDAw
        9Q03G5G_sdfRThMjUjvDqoy_LFf54oTeYoyLRTZ4e4b5StiHrJTVJyR80ufQyLEpHFU8lzBAU4CxTLsgn1-i3Q
        f____4AAAAB__________95zfVbTi89CedzlYX4xkql_____gAAAAH__________3nN9VtOLz0J53OVhfjGSqA
        171 valid MTIzNDAw
        aOxuKY6v4WU5FWzlehSwSnBHwiG6_DpYLq6w2FfE2UaXvtGvF4UBF_2zmyMk8iClaY7RbEJqJzNbs4WsjKb7MA
        f____4AAAAB__________95zfVbTi89CedzlYX4xkql_____gAAAAH__________3nN9VtOLz0J53OVhfjGSqQ
        172 valid MTIzNDAw
        adoDZHNNLlMP7OlAGSZf77eBoPGwj2yIl732VXknyLhm0tPH3NUYsj1yaWDwaa1xqTPYbvirvM6LIPceKoRwAg
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHC7WlL0L5ySYe1DYfWUIqHjADbnwysnDIgHpBn-ymBQIw
        173 valid MTIzNDAw
        2K3AACOo7cAlduK2Pj4wYhpHHisjIGIBh78GehrB_zIz4rUOwJgHrMs2Ex__le0SoJqGtOqWkKoyhhV2uiNi4Q
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHBEpa0K0GNtnxK8ngpr3V4cvLAS6nvwkfzsFbDEMgLVLg
        174 valid MTIzNDAw
        NiOslzztClb6bYgvA6fVx-3KAs_HskAfqzaQ2-dat4WNsGkI5ksoYT2nJX5zfzl5PajnE7oGQ7kum7MlK-f4_g
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHBVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        175 valid MTIzNDAw
        zwTqd-liJSPYlLk_9S3DAnsxlZUDtvo4kOXgQmP5IvHoUo-3wAazmDyLhADle07XF0DC85dUOIIRmb7ersqy6Q
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHCqqqqqAAAAAKqqqqqqqqqqfe9RyRoPvwNNJocsqEIY4Q
        176 valid MTIzNDAw
        23osihq1c-WSncJAd7UI1-aD1JInmWvaPp942-_3c1BPQX87yaiAdcLgqt1aEzEXMM98x2qC8Ro26vCKbJmiBg
        f_________________________________________3pHhumD97bdqRry1HcC4tLfgGfCihyGIX6XTqBlmIzlw
        190 valid MTIzNDAw
        Z-b2Wc3ehpovZfCU6U5bTfrWNrv5UZL-7tAbDz3rdGCjfgpR8li3rrUd_lkvXP1WhbvlhxLI2SM8YohkN8OLoA
        f_________________________________________1_____qqqqqv__________6aJTjzeyiixRPe5A_su3Gg
        204 valid MTIzNDAw
        W4Ev1SGq-mmDWoSczm-962mDtELSRE_nDhNMAn_EaWODikDyo2CS6QBOktjZQM9WOFUM5nLOi41OFeulSZJJ6Q
        byNHyrfddoWP4FVaw7yZBIxKrK_ftry-BepsQsSTRWm7cmZgI1eTqplXph524AwsQ1EJz5oV3WJNU_QwEEeFaw
        205 refused MTIzNDAw
        W4Ev1SGq-mmDWoSczm-962mDtELSRE_nDhNMAn_EaWN8db8MXJ9tF_-xbScmvzCpx6rzGo0xdHKx6hRatm22Fg
        byNHyrfddoWP4FVaw7yZBIxKrK_ftry-BepsQsSTRWm7cmZgI1eTqplXph524AwsQ1EJz5oV3WJNU_QwEEeFaw
        206 refused MTIzNDAw
        at2oK5AmGw8xn6oNh4ZlprbaSX8JyQMXYiLDSs_vcqZH5vUNzECtXZtZ92ArsiL61xpBv14fnfSVmjZMYuSI2Q
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAFVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        207 refused MTIzNDAw
        L8oNCkeRTed-1W5-zMMnamARIMbfAGnIJcj2oByfOCBl80UKHRfGskmJo5vrHH3s_Kg4T73ClEGOXYB7PG7X3g
        AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADMzMzMAAAAAMzMzMzMzMzMlx8u8VJ5S52Px9Voyejqp
        208 refused MTIzNDAw
        3YbTtfShPoURCDt4ACCBxT_0Z_EevZilGmM9t2Zl0lBF1cggDIny-hDYSTSSJtIdjfrtb_jVyz4bfhdHTrwY9w
        VVVVVQAAAABVVVVVVVVVVT73qOSNB9-BppNDllQhDHAzMzMzAAAAADMzMzMzMzMzJcfLvFSeUudj8fVaMno6qQ
        209 valid MTIzNDAw
        T-pVsyyzKsoMEsTNCr-05ksPWlFuV4wBZZGpP1oPvMXX0_0Qsr5mjFR7IS9rsUyI8P7NOKiksseF7TvmLOSygA
        fPJ7GI0DT36KUjgDBLUaw8CJaeJ38hs1pgtI_EdmmXhVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        215 valid MTIzNDAw
        Xln1Bwhka-iliTVQFDCOYLZo-2cBliBsQedI5k5NyiFd43_uXJe8r3FE1bRZmC9S7ur73wOqy6_vOOITYkoB3g
        axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZVVVVVAAAAAFVVVVVVVVVVPveo5I0H34Gmk0OWVCEMcA
        221 refused MTIzNDAw
        axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li_hp_m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q
        u1pS9C-ckmHtQ2H1lCKh4wA258MrJwyIB6QZ_spgUCMkkkkkbbbbbdttttttttttrUWRhoWVqO5r9fhk_3vgwg
        222 refused MTIzNDAw
        axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li_hp_m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q
        RKWtCtBjbZ8SvJ4Ka91eHLywEup78JH87BWwxDIC1S4kkkkkbbbbbdttttttttttrUWRhoWVqO5r9fhk_3vgwg
        223 refused MTIzNDAw
        axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpawHL0cAeWAZXEYFLWD8GHp1DHMqZTOoTE0Sb-XyECuCg
        u1pS9C-ckmHtQ2H1lCKh4wA258MrJwyIB6QZ_spgUCMkkkkkbbbbbdttttttttttrUWRhoWVqO5r9fhk_3vgwg
        224 refused MTIzNDAw
        axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpawHL0cAeWAZXEYFLWD8GHp1DHMqZTOoTE0Sb-XyECuCg
        RKWtCtBjbZ8SvJ4Ka91eHLywEup78JH87BWwxDIC1S4kkkkkbbbbbdttttttttttrUWRhoWVqO5r9fhk_3vgwg
        225 valid - BKrsc2NXJvIT-4qeZNo7hjLkFJWpRNAEW1IuunJA-tWH2TFXmKqjpboBd1eHztBeqve04J_IHW0apUboNl1SXQ
        spKmGTOfblZ6MFyVHA3LzELRbkfyGfnpjnbgnYdws0oBd-YEksWoJC928Hv-NmG95Z7CoXzlvS2rKr69-Jpi4g
        228 valid AAAAAAAAAAAAAAAAAAAAAAAAAAA
        BKrsc2NXJvIT-4qeZNo7hjLkFJWpRNAEW1IuunJA-tWH2TFXmKqjpboBd1eHztBeqve04J_IHW0apUboNl1SXQ
        mG5lkz7y7U7lqtoTn1K3BTmq9j8AqR8pxpF4SQ1X-3E9r-37jaYYnTcjCMvxSJu72r8MAhfRwP8PcBqqemlLnA
        229 valid TWVzc2FnZQ
        TzN8z9Z3JqgF5PFgCuKEnfOAfsoRc4Ajn72BaQAAAADtneoSTMjDlkFkEemIww9CfrUEr0OjFGzV336mBmbWhQ
        1DTiYqSeq3eB41OjVl5IJVDdD9Xe-gE8fyl0Xv81afGbDAqT8mf7YFL9gHe-dpwrmJUxlde8EN6EQhgwXGuheg
        232 valid TWVzc2FnZQ
        PPA9YU2JOc_UmaB4c_rCgWGPBrj_h-gBXD9JcmUASTWE-hdNeRxyvyzjiAqJYN0qfHoTOKgvhanlnNvegAAAAA
        Zk637m24SjTfPIbqMTiaVAW63VypkjH_VW0-daIz5zpZ88dS5S7KRhN2QkkKUVYM4LrcZ4dUuPcuUaKQFCahvQ
        235 valid TWVzc2FnZQ
        PPA9YU2JOc_UmaB4c_rCgWGPBrj_h-gBXD9JcmUASTV7BeixhuONQdMcd_V2nyLVg4XsyFfQelYaYyQhf____w
        EVigjSkVALTKvtM0bYke7lfBdjVqJiT7AR-Pu_NGaDAiioxIanNgBuCCMluFKQxbyR83i3XUh92kZ5jBjyhVGQ
        238 valid TWVzc2FnZQ
        KCnDH6ouQA40TtlLyj_NBUWVbrz-itD236X_jv____-gGq-vAA5SWFhVr6dnat4oQRMJkFLfV-frO9N-vrkiLg
        2Cp8JxcmEYfI4A2N-WP_NdeW7a02vG5r0ckcZw2RBbQ9yr3a-PyqYfRgPny6wPPANR7NWYjvsj9oDQfevROZKQ
        241 valid TWVzc2FnZQ
        ____-UgIHmoEWN2PnnOPJmX_kFmtaqwHCDGMTKmnpPVairy6LdqEdDEe5UFJuXPK4MD7iVV60L945lKaFmO9cw
        dmRW3OGFfJBvmZavcpM5Rk0n6dmO3C0OO3YClwZ0IfZAI4Xsra4NgIHcyvXRkDfsTlU3bs7Wmek2Rr-78Z0LQQ
        244 valid TWVzc2FnZQ
        AAAAA_oV-WOUnV8DpvXH-G-eABXusjrrv_EXOTe6dI4QmYcgcOjofFVfoTZZzKXX-tz8sAI-qIlUjKSK8rp-cQ
        t8gUV9SutqpllXCYVp8EeXEK1_ZZXVh0w1qT0Spd1Me3lhoLZSh4wtVoBppDLKGKGpGZ8spXTa1LnjoFwKHNsw
        247 valid TWVzc2FnZQ
        vLspFMefBF6qbsu8YSgWs75dLWeWcH2BJen4UcGK8BUAAAAAE1K7Sg-i6kzOuatj3WhK3loRJ7zzAKaYpxk7wg
        MSMEKEBVYNy4j7WmRoNq6psjoj3Zc9y-gBTIe4sg6wcPk0TW6BLOFmZGdHaUpBsKr5c3ThnzxfuL1649m9C-_w
        250 valid TWVzc2FnZQ
        vLspFMefBF6qbsu8YSgWs75dLWeWcH2BJen4UcGK8BX____-7K1EtvBdFbMxRlScIpe1IqXu2EMM_1lnWObEPQ
        19cMWBrp4_ZtxqSAvwN64j-KHkohNv5LA6pp8Mols1aJxGD4paXCu7qWLIo-6DOkE-hWWOYqWeKvQdkSfMRyJA
        253 valid aGVsbG8sIHdvcmxk
        Jk15ag2rmzdtNO6m_il93hx7c-U5RLyWyPHopoULtsnPUwgCDu1GDGSd2uYdTvi7eZWBE_EGvvr08Yh20SpeZA
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAX_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        254 refused aGVsbG8sIHdvcmxk
        rddmd-VKkuebvuNqcOF1SDgnPsSzkpXkAYpYcpCn_HPyQNYlZCyUPmENgNlTxca4oSdgpiS6O5Cgt5AnVeGueQ
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAb_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        255 refused aGVsbG8sIHdvcmxk
        Jk15ag2rmzdtNO6m_il93hx7c-U5RLyWyPHopoULtsnPUwgCDu1GDGSd2uYdTvi7eZWBE_EGvvr08Yh20SpeZA
        _____wAAAAD__________7zm-q2nF56E87nKwvxjJVb_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        256 refused aGVsbG8sIHdvcmxk
        5-Sd2CgSQydE_v5yP39pZjIUrRuFwCsmULTKA1R0OjJSI8UcQV9FeuxpywGbvj0nWFs4-LecOd_qbCfC8NgUag
        _____wAAAAD__________7zm-q2nF56E87nKwvxjJU7_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        257 valid aGVsbG8sIHdvcmxk
        ziTJkDLVKsbq0jwK4-xo70HlGigf1FeAjIMTbX3M6Q6PehVLVR6fOcWSeTV6pJGypivevCu3hhOIP8cpNsBX4A
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        258 refused aGVsbG8sIHdvcmxk
        yYHHXd_TkQOH6xRwmP5WWMQ6qqNMaBzW1RS2rVtrqm0U-921Om5tsY6QYCvGDy5zbWJXZffyzKS-dvTuzPEsGA
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAT_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        259 refused aGVsbG8sIHdvcmxk
        DsUFvBmxSkPgVnjMzwekQ9PocaLhm2ik2pGFmgZQ8yR3MA5PZOmYLZTf9dKUQouzfMm-ZhF8rpw4nS1JX2i5hw
        AAAAAAAAAAAAAAAAAAAAAEMZBVNY6GF7DEY1PQOc2rP_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        260 refused aGVsbG8sIHdvcmxk
        1CziHnMPPSqE6UmChXS03O63fU-JVWc180-6AwKO4-0y2vi_0_CnoIIRcIQPTgMgVnIjhrNdm91PT0UGlvT7Ug
        AAAAAP____8AAAAAAAAAAEMZBVJY6GF7DEY1PQOc2rT_____AAAAAP__________vOb6racXnoTzucrC_GMlTg
        261 valid aGVsbG8sIHdvcmxk
        aVWnLA2tTtYDVvdpJkm5UfqOpHS_HMlUm5bGjeR4LfrgEv_CTpLHK-cf8mIu5-VJ3LWee3CPaSHE1OopUS4qug
        X206oNMnwTcCUT1CmfKXqxgvz2cPlikfqxlXLnpuAcQAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAA
        262 valid aGVsbG8sIHdvcmxk
        aVWnLA2tTtYDVvdpJkm5UfqOpHS_HMlUm5bGjeR4LfrgEv_CTpLHK-cf8mIu5-VJ3LWee3CPaSHE1OopUS4qug
        X206oNMnwTcCUT1CmfKXqxgvz2cPlikfqxlXLnpuAcT_____AAAAAP_________-vOb6racXnoTzucrC_GMlUQ
        """
}
