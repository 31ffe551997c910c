# Decides by the posture of the device, on the input that the gateway sends to OPA.
package health.records

import rego.v1

default allow := false

allow if count(violations) == 0

number(version) := result if {
	parts := [to_number(part) | some part in split(version, ".")]
	result := (parts[0] * 10000) + parts[1]
}

violations contains "posture_unknown" if not input.posture

# Also false where no version is known.
is_recent if number(input.posture.os_version) >= number("17.4")

violations contains "os_outdated" if {
	input.platform == "ios"
	not is_recent
}

violations contains "boot_unverified" if {
	input.platform == "android"
	not input.posture.boot == "verified"
}

violations contains "write_refused" if {
	input.method == "DELETE"
	not input.subject
}

verdict := {"allow": allow, "violations": violations}

# Undefined for every other method.
only_get if input.method == "GET"
