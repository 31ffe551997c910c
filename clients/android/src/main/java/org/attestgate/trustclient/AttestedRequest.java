package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/**
 * The parts of a request that a proof covers. Send the request exactly like this: the proof does not cover what a
 * library adds or changes.
 */
public final class AttestedRequest {
    /** A field line of the request. */
    public static final class Field {
        final String name;
        final String value;

        public Field(String name, String value) {
            this.name = name;
            this.value = value;
        }

        public String name() {
            return name;
        }

        public String value() {
            return value;
        }
    }

    /** The content as the proof describes it. */
    public static final class Content {
        /** No content, or empty content. There is no digest. */
        public static final Content NONE = new Content(null);

        private final byte[] digest;

        private Content(byte[] digest) {
            this.digest = digest;
        }

        /** The content as sent. It is encoded if there is a Content-Encoding. */
        public static Content bytes(byte[] content) {
            return content.length == 0 ? NONE : new Content(Bytes.sha256(content));
        }

        /** Content of at least one byte that the caller hashed, such as an uploaded file: 32 bytes of SHA-256. */
        public static Content sha256(byte[] digest) {
            if (digest.length != 32) throw new RequestFault(RequestFault.Reason.DIGEST_LENGTH);
            return new Content(digest.clone());
        }
    }

    /** The fields of a proof. Only this library writes them. */
    private static final List<String> OWN_FIELDS =
        Arrays.asList(Component.CONTENT_DIGEST, "signature-input", "signature", Component.PROOF_COUNTER);

    private final String method;
    private final RequestTarget target;
    private final List<Field> fields = new ArrayList<>();
    private final String contentDigest;

    /**
     * Creates a request.
     *
     * @param method case-sensitive
     * @param fields all lines in order, except those that the HTTP library manages. {@code Authorization},
     *     {@code Content-Type} and {@code Content-Encoding} are always covered, and others if the gateway asks for
     *     them.
     * @throws RequestFault if a field cannot be sent with a proof
     */
    public AttestedRequest(String method, RequestTarget target, List<Field> fields, Content content) {
        this.method = method;
        this.target = target;
        for (Field field : fields) {
            String name = Component.fieldName(field.name);
            if (name == null) throw new RequestFault(RequestFault.Reason.FIELD_NAME);
            if (OWN_FIELDS.contains(name)) throw new RequestFault(RequestFault.Reason.FIELD_RESERVED);
            this.fields.add(new Field(name, field.value));
        }
        contentDigest = content.digest == null ? null : "sha-256=:" + Bytes.base64(content.digest) + ":";
    }

    /** Creates a request without content. */
    public AttestedRequest(String method, RequestTarget target) {
        this(method, target, Collections.emptyList(), Content.NONE);
    }

    /** The value of Content-Digest, or null without content. */
    String contentDigest() {
        return contentDigest;
    }

    /**
     * Returns the components that a proof of this request covers: the required ones, and those requested if the request
     * has them.
     *
     * @param requested the components of {@link AcceptSignature}, which may come from the answer to another request
     */
    List<String> components(List<String> requested) {
        List<String> components = new ArrayList<>(Component.TARGET);
        if (contentDigest != null) components.add(Component.CONTENT_DIGEST);
        for (String name : Component.IF_PRESENT) if (has(name)) components.add(name);
        components.add(Component.PROOF_COUNTER);
        for (String name : requested) if (!components.contains(name) && has(name)) components.add(name);
        return components;
    }

    private boolean has(String component) {
        for (Field field : fields) if (field.name.equals(component)) return true;
        return false;
    }

    /**
     * Returns the text that a proof signs (RFC 9421, section 2.5).
     *
     * @param parameters the value of {@code @signature-params}
     * @throws ProofFault if a value cannot be signed
     */
    String signatureBase(List<String> components, String parameters, long counter) {
        StringBuilder base = new StringBuilder();
        for (String component : components) {
            String value = value(component, counter);
            if (!Printable.isValue(value)) throw new ProofFault(component);
            base.append('"').append(component).append("\": ").append(value).append('\n');
        }
        return base.append("\"@signature-params\": ").append(parameters).toString();
    }

    private String value(String component, long counter) {
        switch (component) {
            case "@method":
                if (method.isEmpty()) throw new ProofFault(component);
                return method;
            case "@authority": return withoutDefaultPort(target.authority.toLowerCase(Locale.ROOT));
            case "@path": return target.path;
            case "@query": return "?" + target.query;
            case Component.CONTENT_DIGEST: return contentDigest;
            case Component.PROOF_COUNTER: return Long.toString(counter);
            default: return fieldValue(component);
        }
    }

    private static String withoutDefaultPort(String authority) {
        for (String suffix : new String[] {":443", ":"}) {
            if (authority.length() > suffix.length() && authority.endsWith(suffix)) {
                return authority.substring(0, authority.length() - suffix.length());
            }
        }
        return authority;
    }

    private String fieldValue(String name) {
        List<String> values = new ArrayList<>();
        for (Field field : fields) if (field.name.equals(name)) values.add(trimmed(field.value));
        return String.join(", ", values);
    }

    /** Returns the value without the spaces and tabs around it. {@link String#trim} would remove more. */
    private static String trimmed(String value) {
        int start = 0;
        int end = value.length();
        while (start < end && " \t".indexOf(value.charAt(start)) >= 0) start++;
        while (end > start && " \t".indexOf(value.charAt(end - 1)) >= 0) end--;
        return value.substring(start, end);
    }
}
