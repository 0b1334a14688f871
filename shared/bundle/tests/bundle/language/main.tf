/* block
comment */
// line
terraform {
  required_version = ">= 1.0"
  required_providers {
    terraform = { source = "terraform.io/builtin/terraform" }
  }
}
variable "xs" {
  type = list(object({ a = optional(string, "x"), b = number }))
  default = []
  validation {
    condition     = alltrue([for x in var.xs : x.b > 0 && !(x.b >= 10) || x.a == "y"])
    error_message = "bad ${length(var.xs)}"
  }
}
variable módulo { default = "ü" }
locals {
  m   = { for k, v in { a = 1, "b-c" : 2, (var.módulo) = 3 } : k => v... if v != null }
  s   = var.xs[*].a
  s2  = var.xs.*.b
  l0  = [1, 2, 3,].0
  t   = "%{ for x in var.xs ~}${x.a}%{ if x.b > 1 }!%{ else }?%{ endif }%{ endfor }"
  e   = "$${not} %%{not} \u00e9 \U0001F600 \"q\" \\ \n"
  h   = <<-EOT
    indented ${upper("x")}
      %{ if true }yes%{ endif }
  EOT
  h2 = <<EOT
"quotes" and ${jsonencode({
  a = [1,
    2]
})}
EOT
  n  = -1.5e+10 % 3
  c  = true ? "a" : false ? "b" : "c"
  p  = provider::terraform::encode_expr({ a = 1 })
  long = join("", [for i in range(3) : format("%03d", i)])
  idx = { a = { b = [10] } }["a"].b[0]
  multi = (
    1 +
    2
  )
  fn = max(
    1,
    2, # trailing
  )
  ex = max([1, 2]...)
}
resource "terraform_data" "a" {
  for_each = toset(["x"])
  input = each.value
  lifecycle { ignore_changes = [input] }
  provisioner "local-exec" {
    command = "echo ${self.id}"
    environment = { A = 1 }
  }
}
moved {
  from = terraform_data.b
  to   = terraform_data.a["x"]
}
check "c" {
  assert {
    condition     = terraform_data.a["x"].id != ""
    error_message = "x"
  }
}
output "o" {
  value = terraform_data.a[*]
}
