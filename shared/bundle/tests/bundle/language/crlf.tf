locals {
  crlf = <<EOT
hello
EOT
  other = 2
}
