# The sample that `make demo` proposes. It manages nothing outside its own state, so that it needs no cloud and no provider
# but the engine's own; the gate treats it as it treats any other configuration.

terraform {
  required_version = ">= 1.9"
}

variable "database_password" {
  description = "Held in SSM as a SecureString. The workspace names the parameter; only the runner reads it."
  type        = string
  sensitive   = true
}

locals {
  image    = "shop:1.4.2"
  replicas = 2
}

resource "terraform_data" "shop" {
  input = {
    image    = local.image
    replicas = local.replicas
  }
}

# Another image, another release: this one is replaced.
resource "terraform_data" "release" {
  triggers_replace = local.image
}

resource "terraform_data" "database" {
  input = {
    name     = "orders"
    user     = "shop"
    password = var.database_password
  }
}

resource "terraform_data" "banner" {
  input = "Summer sale"
}
