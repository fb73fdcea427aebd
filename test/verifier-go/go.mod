module daybook.example/verifier

go 1.21
