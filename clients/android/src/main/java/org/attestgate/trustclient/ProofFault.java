package org.attestgate.trustclient;

/** Thrown if no proof can be made: the value of a covered component cannot be in a signature base. */
public final class ProofFault extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    ProofFault(String component) {
        super("the value of " + component + " cannot be signed");
    }
}
