// run: compile %s --emit hlo
// A custom call that gives its result in another order of dimensions: the program's is the default.
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {backend_config = "", mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
}

//> HloModule main, entry_computation_layout={(f32[2,2], f32[2,3])->f32[2,3]{1,0}}
//>
//> ENTRY %main (a: f32[2,2], b: f32[2,3]) -> f32[2,3] {
//>   %a = f32[2,2] parameter(0)
//>   %b = f32[2,3] parameter(1)
//>   ROOT %custom-call.2 = f32[2,3]{0,1} custom-call(%a, %b), custom_call_target="lapack_strsm_ffi", operand_layout_constraints={f32[2,2]{0,1}, f32[2,3]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}
//> }
