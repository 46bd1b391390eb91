"""AdmissionReview v1 on the wire: decode, patch, response, audit annotations."""
