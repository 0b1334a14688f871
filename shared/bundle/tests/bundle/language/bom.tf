# bom
locals {
  a = 1
}
